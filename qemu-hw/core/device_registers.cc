// SPDX-License-Identifier: GPL-2.0-or-later
// The registers of BAR0: the table, and the effects of writes.
#include "device.h"
#include "mmio/registers.h"

namespace pib::hca {

const Register<Device> Device::kRegisters[] = {
    {PIB_HCA_REG_VERSION, 4, reads<Device, &Device::read_version>, nullptr},
    {PIB_HCA_REG_CONTROL, 4, reads<Device, &Device::read_control>,
     writes<Device, &Device::write_control>},
    {PIB_HCA_REG_STATUS, 4, reads<Device, &Device::read_status>, nullptr},
    {PIB_HCA_REG_FATAL_CAUSE, 4, reads<Device, &Device::read_fatal_cause>, nullptr},
    {PIB_HCA_REG_PORT_COUNT, 4, reads<Device, &Device::read_port_count>, nullptr},
    {PIB_HCA_REG_VECTOR_COUNT, 4, reads<Device, &Device::read_vector_count>, nullptr},
    {PIB_HCA_REG_UAR_COUNT, 4, reads<Device, &Device::read_uar_count>, nullptr},
    {PIB_HCA_REG_SCRATCH, 4, reads<Device, &Device::read_scratch>,
     writes<Device, &Device::write_scratch>},
    {PIB_HCA_REG_CMDQ_BASE, 8, reads<Device, &Device::read_cmdq_base>,
     writes<Device, &Device::write_cmdq_base>},
    {PIB_HCA_REG_CMDQ_CPL_BASE, 8, reads<Device, &Device::read_cmdq_cpl_base>,
     writes<Device, &Device::write_cmdq_cpl_base>},
    {PIB_HCA_REG_CMDQ_LOG_DEPTH, 4, reads<Device, &Device::read_cmdq_log_depth>,
     writes<Device, &Device::write_cmdq_log_depth>},
    {PIB_HCA_REG_CMDQ_DOORBELL, 4, nullptr, writes<Device, &Device::write_cmdq_doorbell>},
    {PIB_HCA_REG_CMDQ_CONSUMED, 4, reads<Device, &Device::read_cmdq_consumed>, nullptr},
    {PIB_HCA_REG_TEST_IRQ, 4, nullptr, writes<Device, &Device::write_test_irq>},
    {PIB_HCA_REG_CLOCK, 8, reads<Device, &Device::read_clock>, nullptr},
    {PIB_HCA_REG_NODE_GUID, 8, reads<Device, &Device::read_node_guid>, nullptr},
};

std::span<const Register<Device>> Device::registers() {
    return kRegisters;
}

uint64_t Device::read_version() {
    return PIB_HCA_INTERFACE_MAJOR << 16 | PIB_HCA_INTERFACE_MINOR;
}

void Device::write_control(uint64_t value) {
    const bool was_enabled = (regs_.control & PIB_HCA_CONTROL_ENABLE) != 0;
    const bool enable_wanted = (value & PIB_HCA_CONTROL_ENABLE) != 0;
    if ((value & ~uint64_t{PIB_HCA_CONTROL_ENABLE | PIB_HCA_CONTROL_RESET}) != 0) {
        bad_access("reserved bits written to register", PIB_HCA_REG_CONTROL);
    }
    if ((value & PIB_HCA_CONTROL_RESET) != 0 || (was_enabled && !enable_wanted)) {
        do_reset(false);
    } else if (!was_enabled && enable_wanted) {
        enable();
    }
}

void Device::enable() {
    regs_.status &= ~uint32_t{PIB_HCA_STATUS_BAD_ENABLE};
    if (is_fatal() || !cmdq_.start({regs_.cmdq_base, regs_.cmdq_cpl_base, regs_.cmdq_log_depth})) {
        regs_.status |= PIB_HCA_STATUS_BAD_ENABLE;
        return;
    }
    regs_.control |= PIB_HCA_CONTROL_ENABLE;
    regs_.status |= PIB_HCA_STATUS_ENABLED;
}

void Device::write_cmdq_doorbell(uint64_t value) {
    if (!cmdq_.running()) {
        bad_access("command doorbell while not enabled", PIB_HCA_REG_CMDQ_DOORBELL);
        return;
    }
    if (const uint32_t cause = cmdq_.doorbell(static_cast<uint32_t>(value));
        cause != PIB_HCA_FATAL_NONE) {
        fail(cause);
        return;
    }
    run_commands();
}

void Device::write_test_irq(uint64_t value) {
    if (value >= config_.vector_count) {
        bad_access("no such vector written to register", PIB_HCA_REG_TEST_IRQ);
        return;
    }
    host_.raise_msix(static_cast<unsigned>(value));
    interrupt_raised();
}

}  // namespace pib::hca
