#include "cli/fleet_builders.h"

#include <boost/json/array.hpp>
#include <cstdio>

#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {

void print_builders(const BuildStatus& status) {
  std::vector<std::vector<std::string>> builders, targets;
  for (const FleetBuilder& builder : status.builders)
    builders.push_back({builder.name, builder.is_gone ? "gone" : cat(show_number(builder.heartbeat_age), " s ago"),
                        std::to_string(builder.built), std::to_string(builder.failed), std::to_string(builder.faults),
                        builder.key.substr(0, 16), join(split(builder.targets, '\n'), ", ")});
  for (const UnbuiltTarget& target : status.targets)
    targets.push_back(
        {target.target, std::to_string(target.trials),
         target.builders > 0 ? std::to_string(target.builders) : "none: start `tracewright measure --build-for`",
         target.kind});
  if (!builders.empty()) {
    std::printf("\n");
    print_table({"builder", "heard", "built", "failed", "faults", "key", "builds for"}, builders);
  }
  if (!targets.empty()) {
    std::printf("\n");
    print_table({"target that wants built code", "trials that wait", "builders", "kind"}, targets);
  }
}

void add_builders(const BuildStatus& status, boost::json::object& object) {
  boost::json::array builders, targets;
  for (const FleetBuilder& builder : status.builders) {
    std::vector<std::string> for_targets = split(builder.targets, '\n');
    builders.push_back({{"name", builder.name},
                        {"version", builder.version},
                        {"targets", boost::json::array(for_targets.begin(), for_targets.end())},
                        {"key", builder.key},
                        {"built", builder.built},
                        {"failed", builder.failed},
                        {"faults", builder.faults},
                        {"heard_seconds_ago", builder.heartbeat_age},
                        {"gone", builder.is_gone}});
  }
  for (const UnbuiltTarget& target : status.targets)
    targets.push_back(
        {{"target", target.target}, {"kind", target.kind}, {"trials", target.trials}, {"builders", target.builders}});
  object["builders"] = std::move(builders);
  object["unbuilt"] = std::move(targets);
}

}  // namespace tw::cli
