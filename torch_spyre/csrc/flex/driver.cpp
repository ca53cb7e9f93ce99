#include "flex/driver.h"

#include <dlfcn.h>

#include "emulator/card.h"

namespace spyre::flex {

std::unique_ptr<Driver> open_driver(const std::string& mode) {
  if (mode == "EMU") return emulator::make_driver();
  const std::string asked = "FLEX_DEVICE=" + mode + " asks for a hardware driver";
  void* library = dlopen(kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw std::runtime_error(asked + ", but the driver library " + kDriverLibrary +
                             " could not be loaded (" + (reason ? reason : "no reason given") +
                             "). Put it on the loader's path (LD_LIBRARY_PATH), or unset "
                             "FLEX_DEVICE to use the emulated card.");
  }
  auto open = reinterpret_cast<OpenDriver>(dlsym(library, kDriverSymbol));
  if (open == nullptr) {
    throw std::runtime_error(asked + ", but the driver library " + kDriverLibrary +
                             " does not export " + kDriverSymbol +
                             ". Install one made for this version, or unset FLEX_DEVICE.");
  }
  std::unique_ptr<Driver> driver(open(kDriverInterfaceVersion));
  if (driver == nullptr) {
    throw std::runtime_error(asked + ", but the driver in " + kDriverLibrary +
                             " does not speak interface version " +
                             std::to_string(kDriverInterfaceVersion) +
                             " or found no card. Unset FLEX_DEVICE to use the emulated card.");
  }
  return driver;
}

}  // namespace spyre::flex
