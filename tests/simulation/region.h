// SPDX-License-Identifier: GPL-2.0-or-later
// A buffer of a guest, its key, which steps create and destroy, and the model of its bytes.
#pragma once

#include <string>

#include "subnet.h"
#include "target.h"

namespace pib::simulation {

class Region final : public Target {
  public:
    Region(test::Guest& guest, uint32_t pd, size_t bytes, const std::string& name);

    // Registers the memory; the key differs from the earlier ones.
    void create_key(uint32_t pd);
    void destroy_key();
    // The device has forgotten all keys.
    void lose_key();
    bool has_key() const override { return has_key_; }
    bool opens(uint32_t key) const override { return has_key_ && key == mr_.key; }
    uint32_t key() const override { return mr_.key; }  // the present or the last one
    // The present or last further keys of the memory: one permits only reads, one is of another PD.
    uint32_t read_only_key() const { return read_only_.key; }
    uint32_t foreign_key() const { return foreign_.key; }
    Shadow& bytes() override { return shadow; }
    uint64_t address(uint64_t offset) const override { return mr_.addr + offset; }
    pib_hca_sge sge(uint64_t offset, uint32_t length) const {
        return hca::test::MiniDriver::sge(mr_, offset, length);
    }

  private:
    test::Guest& guest_;
    const size_t bytes_;
    uint8_t next_key_byte_ = 1;
    uint32_t foreign_pd_ = 0;
    hca::test::MiniMr mr_;
    hca::test::MiniMr read_only_;
    hca::test::MiniMr foreign_;
    bool has_key_ = false;

  public:
    Shadow shadow;
};

}  // namespace pib::simulation
