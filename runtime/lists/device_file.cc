#include "runtime/lists/device_file.h"

#include "dsl/base/embedded_text.h"
#include "dsl/base/files.h"
#include "runtime/lists/yaml_decode.h"

namespace tw {
namespace {

using yaml::Item;
using yaml::Key;

template <std::string GpuDevice::* Field>
void decode_name(const Item& item, GpuDevice& device) {
  Located<std::string> text;
  yaml::decode_text(item, text);
  if (text.given) device.*Field = text.value;
}

template <i64 GpuDevice::* Field, i64 Least, i64 Most>
void decode_number(const Item& item, GpuDevice& device) {
  Located<i64> value;
  yaml::decode_integer<i64>(item, Least, Most, value);
  if (value.given) device.*Field = value.value;
}

constexpr i64 kMostBytes = i64{1} << 40;

const std::vector<Key<GpuDevice>>& device_keys() {
  using D = GpuDevice;
  static const std::vector<Key<GpuDevice>> keys = {
      {"name", decode_name<&D::name>, "a short name for messages"},
      {"full_name", decode_name<&D::full_name>},
      {"arch", decode_name<&D::arch>, "what machine code is made for, as `sm_80`"},
      {"multiprocessors", decode_number<&D::multiprocessors, 1, 4096>, "how many there are"},
      {"clock_mhz", decode_number<&D::clock_mhz, 1, 100000>, "of the multiprocessors"},
      {"threads_per_block", decode_number<&D::threads_per_block, 1, 1024>},
      {"threads_per_multiprocessor", decode_number<&D::threads_per_multiprocessor, 32, 65536>},
      {"blocks_per_multiprocessor", decode_number<&D::blocks_per_multiprocessor, 1, 1024>},
      {"registers_per_multiprocessor", decode_number<&D::registers_per_multiprocessor, 1024, kMostBytes>},
      {"registers_per_thread", decode_number<&D::registers_per_thread, 16, 255>},
      {"shared_per_multiprocessor", decode_number<&D::shared_per_multiprocessor, 1, kMostBytes>,
       "bytes of shared memory"},
      {"shared_per_block", decode_number<&D::shared_per_block, 1, kMostBytes>,
       "bytes of shared memory that one block may have"},
      {"shared_reserved_per_block", decode_number<&D::shared_reserved_per_block, 0, 65536>},
      {"memory_gb_per_second", decode_number<&D::memory_gb_per_second, 1, 1000000>, "bandwidth of the device's memory"},
      {"l2_bytes", decode_number<&D::l2_bytes, 1, kMostBytes>, "size of the second cache"},
      {"l2_bytes_per_cycle", decode_number<&D::l2_bytes_per_cycle, 1, 1000000>, "its bandwidth, for the whole device"},
      {"shared_bytes_per_cycle", decode_number<&D::shared_bytes_per_cycle, 1, 4096>},
      {"f32_per_cycle", decode_number<&D::f32_per_cycle, 1, 65536>, "f32 multiply-adds of one multiprocessor"},
      {"f64_per_cycle", decode_number<&D::f64_per_cycle, 1, 65536>, "f64 multiply-adds of one multiprocessor"},
      {"tensor_f16_per_cycle", decode_number<&D::tensor_f16_per_cycle, 0, 1000000>},
      {"wgmma_f16_per_cycle", decode_number<&D::wgmma_f16_per_cycle, 0, 1000000>},
      {"memory_latency", decode_number<&D::memory_latency, 1, 100000>},
      {"shared_latency", decode_number<&D::shared_latency, 1, 100000>},
      {"launch_ns", decode_number<&D::launch_ns, 0, 1000000>},
  };
  return keys;
}

std::string built_in_path(const std::string& name) { return cat("costmodel/devices/", name, ".yaml"); }

std::optional<GpuDevice> parse_text(const Source& source, std::string& errors) {
  Diagnostics diagnostics(source);
  std::optional<GpuDevice> device = parse_device(diagnostics);
  errors += diagnostics.render();
  return device;
}

std::optional<GpuDevice> built_in(const std::string& name, std::string& errors) {
  std::string path = built_in_path(name);
  std::optional<std::string_view> text = embedded_text(path);
  if (text) return parse_text({path, std::string(*text)}, errors);
  errors += cat("there is no description of a device `", name, "`; there are ", join(built_in_devices(), ", "), "\n");
  return std::nullopt;
}

std::optional<GpuDevice> from_file(const std::string& path, std::string& errors) {
  if (std::optional<std::string> text = read_whole_file(path)) return parse_text({path, *text}, errors);
  errors += cat("the description ", path, " of a device cannot be read\n");
  return std::nullopt;
}

// "sm_90" code runs on what is described as sm_90a: the letter only adds instructions.
bool is_same_arch(std::string described, std::string wanted) {
  for (std::string* arch : {&described, &wanted}) {
    if (arch->ends_with("a")) arch->pop_back();
  }
  return described == wanted;
}

}  // namespace

std::optional<GpuDevice> parse_device(Diagnostics& diagnostics) {
  std::optional<YamlNode> root = parse_yaml(diagnostics);
  if (!root) return std::nullopt;
  GpuDevice device;
  yaml::decode_mapping("a device", *root, device_keys(), device, diagnostics);
  if (device.full_name.empty()) device.full_name = device.name;
  if (!diagnostics.has_errors() && device.shared_per_block > device.shared_per_multiprocessor)
    diagnostics.error(root->find("shared_per_block")->span,
                      cat("a block cannot have more shared memory than a multiprocessor, which has ",
                          device.shared_per_multiprocessor));
  if (diagnostics.has_errors()) return std::nullopt;
  return device;
}

std::vector<std::string> built_in_devices() {
  constexpr std::string_view folder = "costmodel/devices/", extension = ".yaml";
  std::vector<std::string> names;
  for (const EmbeddedText& text : embedded_texts()) {
    if (!text.path.starts_with(folder) || !text.path.ends_with(extension)) continue;
    names.emplace_back(text.path.substr(folder.size(), text.path.size() - folder.size() - extension.size()));
  }
  return names;
}

std::optional<GpuDevice> device_of(const Target& target, std::string& errors) {
  const std::string& named = target.gpu;
  if (!named.empty()) {
    std::optional<GpuDevice> device = is_device_file(named) ? from_file(named, errors) : built_in(named, errors);
    if (!device || target.kind != TargetKind::Cuda || is_same_arch(device->arch, target.arch)) return device;
    errors += cat("the device `", named, "` has the arch ", device->arch, ", but the target says ", target.arch, "\n");
    return std::nullopt;
  }
  for (const std::string& name : built_in_devices()) {
    std::optional<GpuDevice> device = built_in(name, errors);
    if (device && is_same_arch(device->arch, target.arch)) return device;
  }
  errors += cat(
      "there is no description of a device with arch ", target.arch, "; there are ", join(built_in_devices(), ", "),
      ". Write one as in docs/commands.md and name it: {kind: cuda, arch: ", target.arch, ", device: my_gpu.yaml}\n");
  return std::nullopt;
}

}  // namespace tw
