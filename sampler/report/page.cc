#include "sampler/report/page.h"

#include <boost/json/serialize.hpp>
#include <cmath>
#include <utility>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"

namespace tw {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"')
      out += cat("&#", static_cast<int>(c), ";");
    else
      out += c;
  }
  return out;
}

// For a script element: no text in it can end the element or begin another one.
std::string embedded_json(const boost::json::object& json) {
  std::string out;
  for (char c : boost::json::serialize(json)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string part(const std::string& name) { return std::string(*embedded_text(cat("sampler/report/", name))); }

std::string refresh(double seconds) {
  if (seconds <= 0) return "";
  return cat("<noscript><meta http-equiv=\"refresh\" content=\"", std::ceil(seconds), "\"></noscript>\n");
}

std::string row_of(const std::vector<std::string>& cells, const char* tag) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += cat("<", tag, ">", escaped(cell), "</", tag, ">");
  return row + "</tr>\n";
}

}  // namespace

std::string plain_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  if (rows.empty()) return "";
  std::string body;
  for (const std::vector<std::string>& row : rows) body += row_of(row, "td");
  return cat("<div class=\"scroll\"><table><thead>", row_of(head, "th"), "</thead><tbody>\n", body,
             "</tbody></table></div>\n");
}

std::string to_html(const Page& page) {
  std::string data = embedded_json(page.data);
  // Scripts and styles run with this word only: a word that depends on all data cannot stand in them.
  std::string nonce = to_hex(hash_bytes(data));
  const std::pair<std::string, std::string> holes[] = {{"{{nonce}}", nonce},
                                                       {"{{title}}", escaped(page.title)},
                                                       {"{{head}}", refresh(page.refresh_seconds)},
                                                       {"{{style}}", part("page.css")},
                                                       {"{{charts}}", part("charts.js")},
                                                       {"{{parts}}", part("page.js")},
                                                       {"{{script}}", part(page.script)},
                                                       {"{{plain}}", page.plain},
                                                       {"{{data}}", data}};
  std::string form = part("page.html"), out;
  for (std::size_t at = 0; at < form.size();) {
    std::size_t open = form.find("{{", at);
    out += form.substr(at, open - at);
    if (open == std::string::npos) break;
    std::size_t end = form.find("}}", open) + 2;
    for (const auto& [hole, text] : holes) {
      if (form.compare(open, end - open, hole) == 0) out += text;
    }
    at = end;
  }
  return out;
}

}  // namespace tw
