// A page: one HTML file that needs nothing else, made of the texts of this folder and of data. For reports and fleets.
// All text out of files and databases is shown, never obeyed.
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace tw {

struct Page {
  std::string title;
  std::string script;          // "report.js"
  boost::json::object data;    // what the script shows
  std::string plain = {};      // HTML that is shown where no script runs
  double refresh_seconds = 0;  // such a place loads the page again after so long; 0 = never
};
std::string to_html(const Page& page);

// HTML of a table of texts; "" without rows.
std::string plain_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

}  // namespace tw
