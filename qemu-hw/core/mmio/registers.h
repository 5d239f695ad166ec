// SPDX-License-Identifier: GPL-2.0-or-later
// Memory-mapped registers as a table: offset, width, handlers. Device::mmio_read() returns 0 for an
// offset outside the table, and Device::mmio_write() ignores it.
#pragma once

#include <cstdint>
#include <span>

namespace pib::hca {

// Handlers of the table that call a member function.
template <typename Owner, uint64_t (Owner::*kMethod)()>
uint64_t reads(Owner& owner) {
    return (owner.*kMethod)();
}
template <typename Owner, void (Owner::*kMethod)(uint64_t)>
void writes(Owner& owner, uint64_t value) {
    (owner.*kMethod)(value);
}

// One register of `Owner`. No read handler: write only. No write handler: read only.
template <typename Owner>
struct Register {
    uint32_t offset;
    uint8_t width;  // 4 or 8 bytes
    uint64_t (*read)(Owner& owner);
    void (*write)(Owner& owner, uint64_t value);
    // The 64-bit register takes 8-byte accesses only, because a write has a side effect. Other
    // 64-bit registers also take 4-byte accesses to each half.
    bool whole = false;
};

// An access to a whole register, or to one half of a 64-bit register; false: the access is invalid.
template <typename Owner>
struct RegisterAccess {
    const Register<Owner>* target = nullptr;
    unsigned shift = 0;  // 32: the high half
    uint64_t mask = 0;   // mask of the accessed bits, not shifted

    explicit operator bool() const { return target != nullptr; }
};

template <typename Owner>
RegisterAccess<Owner> decode(std::span<const Register<Owner>> table, uint64_t offset,
                             unsigned size) {
    for (const Register<Owner>& reg : table) {
        if (offset < reg.offset || offset - reg.offset >= reg.width) {
            continue;
        }
        const uint64_t within = offset - reg.offset;
        if (within == 0 && size == reg.width) {
            return {&reg, 0, size == 8 ? UINT64_MAX : UINT32_MAX};
        }
        if (size == 4 && within % 4 == 0 && !reg.whole) {
            return {&reg, static_cast<unsigned>(within) * 8, UINT32_MAX};
        }
    }
    return {};
}

// read_register() and write_register() return false for an offset without a register, a wrong size
// or alignment, and an access that the register does not allow.
template <typename Owner>
[[nodiscard]] bool read_register(std::span<const Register<Owner>> table, Owner& owner,
                                 uint64_t offset, unsigned size, uint64_t& value) {
    const auto access = decode(table, offset, size);
    if (!access || access.target->read == nullptr) {
        return false;
    }
    value = access.target->read(owner) >> access.shift & access.mask;
    return true;
}

template <typename Owner>
[[nodiscard]] bool write_register(std::span<const Register<Owner>> table, Owner& owner,
                                  uint64_t offset, unsigned size, uint64_t value) {
    const auto access = decode(table, offset, size);
    if (!access || access.target->write == nullptr) {
        return false;
    }
    const Register<Owner>& reg = *access.target;
    uint64_t whole = value & access.mask;
    if (size != reg.width) {
        const uint64_t kept = reg.read(owner) & ~(access.mask << access.shift);
        whole = kept | whole << access.shift;
    }
    reg.write(owner, whole);
    return true;
}

}  // namespace pib::hca
