// SPDX-License-Identifier: GPL-2.0-or-later
#include "device_registers.h"

#include "mmio/registers.h"
#include "pib_hca_hw.h"

namespace pib::hca {

namespace {

// BAR0 during one access.
struct Bar0 {
    Engine& engine;
    DeviceRegisters::Values& values;

    template <auto kField>
    uint64_t value() {
        return values.*kField;
    }
    template <auto kField>
    void set(uint64_t value) {
        values.*kField = static_cast<std::remove_reference_t<decltype(values.*kField)>>(value);
    }

    Host& host() { return engine.objects().host; }
    const Config& config() { return engine.objects().config; }

    uint64_t version() { return PIB_HCA_INTERFACE_MAJOR << 16 | PIB_HCA_INTERFACE_MINOR; }
    uint64_t status() {
        return (engine.commands().running() ? PIB_HCA_STATUS_ENABLED : 0) |
               (engine.health().is_fatal() ? PIB_HCA_STATUS_FATAL : 0) |
               (values.bad_enable ? PIB_HCA_STATUS_BAD_ENABLE : 0) |
               (engine.is_resetting() ? PIB_HCA_STATUS_RESETTING : 0);
    }
    uint64_t fatal_cause() { return engine.health().cause(); }
    uint64_t port_count() { return config().port_count; }
    uint64_t vector_count() { return config().vector_count; }
    uint64_t uar_count() { return PIB_HCA_MAX_UARS; }
    uint64_t consumed() { return engine.commands().consumed(); }
    uint64_t clock() { return host().now_ns(); }
    uint64_t node_guid() { return config().node_guid; }

    void control(uint64_t value);
    void command_doorbell(uint64_t value);
    void test_irq(uint64_t value);
    void enable();
    void ignored(uint64_t offset, const Verdict& verdict) {
        engine.objects().refusals.ignored_store(PIB_HCA_BAR_REGS, offset, verdict);
    }
};

using Values = DeviceRegisters::Values;

constexpr Register<Bar0> kRegisters[] = {
    {PIB_HCA_REG_VERSION, 4, reads<Bar0, &Bar0::version>, nullptr},
    {PIB_HCA_REG_CONTROL, 4, reads<Bar0, &Bar0::value<&Values::control>>,
     writes<Bar0, &Bar0::control>},
    {PIB_HCA_REG_STATUS, 4, reads<Bar0, &Bar0::status>, nullptr},
    {PIB_HCA_REG_FATAL_CAUSE, 4, reads<Bar0, &Bar0::fatal_cause>, nullptr},
    {PIB_HCA_REG_PORT_COUNT, 4, reads<Bar0, &Bar0::port_count>, nullptr},
    {PIB_HCA_REG_VECTOR_COUNT, 4, reads<Bar0, &Bar0::vector_count>, nullptr},
    {PIB_HCA_REG_UAR_COUNT, 4, reads<Bar0, &Bar0::uar_count>, nullptr},
    {PIB_HCA_REG_SCRATCH, 4, reads<Bar0, &Bar0::value<&Values::scratch>>,
     writes<Bar0, &Bar0::set<&Values::scratch>>},
    {PIB_HCA_REG_CMDQ_BASE, 8, reads<Bar0, &Bar0::value<&Values::cmdq_base>>,
     writes<Bar0, &Bar0::set<&Values::cmdq_base>>},
    {PIB_HCA_REG_CMDQ_CPL_BASE, 8, reads<Bar0, &Bar0::value<&Values::cmdq_cpl_base>>,
     writes<Bar0, &Bar0::set<&Values::cmdq_cpl_base>>},
    {PIB_HCA_REG_CMDQ_LOG_DEPTH, 4, reads<Bar0, &Bar0::value<&Values::cmdq_log_depth>>,
     writes<Bar0, &Bar0::set<&Values::cmdq_log_depth>>},
    {PIB_HCA_REG_CMDQ_DOORBELL, 4, nullptr, writes<Bar0, &Bar0::command_doorbell>},
    {PIB_HCA_REG_CMDQ_CONSUMED, 4, reads<Bar0, &Bar0::consumed>, nullptr},
    {PIB_HCA_REG_TEST_IRQ, 4, nullptr, writes<Bar0, &Bar0::test_irq>},
    {PIB_HCA_REG_CLOCK, 8, reads<Bar0, &Bar0::clock>, nullptr},
    {PIB_HCA_REG_NODE_GUID, 8, reads<Bar0, &Bar0::node_guid>, nullptr},
};

void Bar0::control(uint64_t value) {
    const bool was_enabled = (values.control & PIB_HCA_CONTROL_ENABLE) != 0;
    const bool enable_wanted = (value & PIB_HCA_CONTROL_ENABLE) != 0;
    constexpr uint64_t kBits = PIB_HCA_CONTROL_ENABLE | PIB_HCA_CONTROL_RESET;
    if ((value & ~kBits) != 0) {
        ignored(PIB_HCA_REG_CONTROL, refuse(Rule::kControlBits, value, kBits));
    }
    if ((value & PIB_HCA_CONTROL_RESET) != 0 || (was_enabled && !enable_wanted)) {
        engine.reset(false);
        values = {};
    } else if (!was_enabled && enable_wanted) {
        enable();
    }
}

void Bar0::enable() {
    const Verdict verdict =
        engine.enable({values.cmdq_base, values.cmdq_cpl_base, values.cmdq_log_depth});
    values.bad_enable = verdict != CmdStatus::kOk;
    if (values.bad_enable) {
        ignored(PIB_HCA_REG_CONTROL, verdict);
    } else {
        values.control |= PIB_HCA_CONTROL_ENABLE;
    }
}

void Bar0::command_doorbell(uint64_t value) {
    if (!engine.commands().running()) {
        ignored(PIB_HCA_REG_CMDQ_DOORBELL, refuse(Rule::kDoorbellEnabled, value));
        return;
    }
    engine.command_doorbell(static_cast<uint32_t>(value));
}

void Bar0::test_irq(uint64_t value) {
    if (value >= config().vector_count) {
        ignored(PIB_HCA_REG_TEST_IRQ, refuse(Rule::kTestVector, value, config().vector_count - 1));
        return;
    }
    host().raise_msix(static_cast<unsigned>(value));
    engine.health().interrupt_raised({.vector = static_cast<unsigned>(value)});
}

}  // namespace

bool DeviceRegisters::read(uint64_t offset, unsigned size, uint64_t& value) {
    Bar0 bar{engine_, values_};
    return read_register<Bar0>(kRegisters, bar, offset, size, value);
}

bool DeviceRegisters::write(uint64_t offset, unsigned size, uint64_t value) {
    Bar0 bar{engine_, values_};
    return write_register<Bar0>(kRegisters, bar, offset, size, value);
}

}  // namespace pib::hca
