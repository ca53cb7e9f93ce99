#include "flex/driver.h"

#include <dlfcn.h>

#include <map>

namespace spyre::flex {

namespace {

// A function-local static, so that static objects of other files may use it in any order.
std::map<std::string, DriverRegistration::Factory>& registered_drivers() {
  static std::map<std::string, DriverRegistration::Factory> drivers;
  return drivers;
}

}  // namespace

DriverRegistration::DriverRegistration(std::string mode, Factory factory) {
  registered_drivers().emplace(std::move(mode), factory);
}

std::unique_ptr<Driver> open_driver(const std::string& mode) {
  const auto registered = registered_drivers().find(mode);
  if (registered != registered_drivers().end()) return registered->second();
  const std::string request = "FLEX_DEVICE=" + mode + " asks for a hardware driver";
  void* library = dlopen(kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw std::runtime_error(request + ", but the driver library " + kDriverLibrary +
                             " could not be loaded (" + (reason ? reason : "no reason given") +
                             "). Put it on the loader's path (LD_LIBRARY_PATH), or unset "
                             "FLEX_DEVICE to use the emulated card.");
  }
  auto open = reinterpret_cast<OpenDriver>(dlsym(library, kDriverSymbol));
  if (open == nullptr) {
    throw std::runtime_error(request + ", but the driver library " + kDriverLibrary +
                             " does not export " + kDriverSymbol +
                             ". Install one made for this version, or unset FLEX_DEVICE.");
  }
  std::unique_ptr<Driver> driver(open(kDriverInterfaceVersion));
  if (driver == nullptr) {
    throw std::runtime_error(request + ", but the driver in " + kDriverLibrary +
                             " does not speak interface version " +
                             std::to_string(kDriverInterfaceVersion) +
                             " or found no card. Unset FLEX_DEVICE to use the emulated card.");
  }
  return driver;
}

}  // namespace spyre::flex
