#include <boost/json/serialize.hpp>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "sampler/report/report.h"

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

std::string time_text(double seconds) { return seconds > 0 ? cat(seconds * 1e6, " us") : "-"; }

// What is shown where no script runs.
std::string plain_table(const Report& report) {
  std::string rows;
  for (const TaskReport& task : report.tasks)
    rows += cat("<tr><td>", escaped(task.name), "</td><td>", escaped(task.target), "</td><td>", task.trials,
                "</td><td>", task.failed, "</td><td>", time_text(task.best.seconds), "</td></tr>\n");
  std::string steps;
  for (const ModelReport& model : report.models) {
    for (const ModelReport::Step& step : model.steps)
      steps += cat("<tr><td>", escaped(model.name), "</td><td>", escaped(step.name), "</td><td>", escaped(step.kernel),
                   "</td><td>", time_text(step.seconds), "</td></tr>\n");
  }
  std::string out = "<p>The charts of this page need JavaScript.</p>\n";
  if (!rows.empty())
    out +=
        cat("<div class=\"scroll\"><table><thead><tr><th>task</th><th>target</th><th>trials</th><th>failed</th>"
            "<th>best</th></tr></thead><tbody>\n",
            rows, "</tbody></table></div>\n");
  if (!steps.empty())
    out +=
        cat("<div class=\"scroll\"><table><thead><tr><th>model</th><th>step</th><th>kernel</th><th>time</th></tr>"
            "</thead><tbody>\n",
            steps, "</tbody></table></div>\n");
  return out;
}

std::string part(const char* name) { return std::string(*embedded_text(cat("sampler/report/", name))); }

}  // namespace

std::string report_page(const Report& report) {
  std::string data = embedded_json(to_json(report));
  // Scripts and styles run with this word only: a word that depends on all data cannot stand in them.
  std::string nonce = to_hex(hash_bytes(data));
  const std::pair<std::string, std::string> holes[] = {{"{{nonce}}", nonce},
                                                       {"{{style}}", part("report.css")},
                                                       {"{{charts}}", part("charts.js")},
                                                       {"{{script}}", part("report.js")},
                                                       {"{{plain}}", plain_table(report)},
                                                       {"{{data}}", data}};
  std::string page = part("report.html"), out;
  for (std::size_t at = 0; at < page.size();) {
    std::size_t open = page.find("{{", at);
    out += page.substr(at, open - at);
    if (open == std::string::npos) break;
    std::size_t end = page.find("}}", open) + 2;
    for (const auto& [hole, text] : holes) {
      if (page.compare(open, end - open, hole) == 0) out += text;
    }
    at = end;
  }
  return out;
}

}  // namespace tw
