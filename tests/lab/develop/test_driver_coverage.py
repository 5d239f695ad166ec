# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib driver coverage: counts of devices, their sums over guests and runs, the points, text and page."""

import copy
import json

import pytest

from lab import __main__ as command_line
from lab.base import ui
from lab.develop import coverage_page, coverage_points, driver_coverage
from lab.guests import vm
from lab.interface import description

INTERFACE = description.interface()
CREATE_CQ, MODIFY_QP = 0x40, 0x51
OK, BAD_PARAM = 0, 3


def command(opcode, statuses, data=b""):
    """Counts of a command that was executed once with the input `data`."""
    halves = [[int.from_bytes(data[at:at + 2], "little")] * 2 for at in range(0, len(data) - 1, 2)]
    words = [[int.from_bytes(data[at:at + 4], "little")] * 2 for at in range(0, len(data) - 3, 4)]
    return {"opcode": opcode, "statuses": [statuses.count(number) for number in range(16)],
            "values": [f"{byte:02x}" for byte in data], "halves": halves, "words": words}


def cq(log_depth, levels=1):
    return bytes(12) + bytes([levels, 12, 0, 0]) + bytes([1, 0, 0, 0, 2, 0, 0, 0, log_depth]) + bytes(7)


def counts(**changes):
    return {**copy.deepcopy(coverage_points.empty()), **changes}


def used(given):
    return {point.title: point.uses for point in coverage_points.points(INTERFACE, given) if point.uses}


def test_points_have_names_of_their_own_and_none_is_used_at_first():
    points = coverage_points.points(INTERFACE, coverage_points.empty())
    assert len({point.title for point in points}) == len(points)
    assert not any(point.uses for point in points)
    assert driver_coverage.share(points) == 0
    errors = {point.title for point in points if point.error}
    assert {"rule: 6.13.2", "CQE status: WR_FLUSH_ERR", "fatal cause: EQ_DMA"} <= errors


def test_accesses_to_registers_and_doorbells_are_points():
    found = used(counts(registers=[{"offset": 0x44, "loads": 2, "stores": 0, "bits": "0x0"},
                                   {"offset": 4, "loads": 0, "stores": 1, "bits": "0x2"}],
                        doorbells=[{"offset": 8, "loads": 0, "stores": 3, "bits": "0x1000000"}]))
    assert found == {"PIB_HCA_REG_CLOCK: load": 2, "PIB_HCA_REG_CONTROL: store": 1, "PIB_HCA_REG_CONTROL: RESET": 1,
                     "PIB_HCA_UAR_CQ_ARM: store": 3, "PIB_HCA_UAR_CQ_ARM: CQ_SOLICITED": 1}


@pytest.mark.parametrize("depths, said", [
    ([0], {"least"}), ([22], {"most"}), ([5], {"between"}), ([0, 22], {"least", "most"}),
    ([0, 7, 22], {"least", "between", "most"})])
def test_least_most_and_other_values_of_a_field_are_points(depths, said):
    given = coverage_points.of_all([counts(commands=[command(CREATE_CQ, [OK], cq(depth))]) for depth in depths])
    found = used(given)
    assert {name for name in ("least", "between", "most") if f"CREATE_CQ.log_depth: {name}" in found} == said
    assert found["command: CREATE_CQ"] == len(depths)
    assert found["CREATE_CQ.pages.levels: between"] == 1


def test_values_flags_and_numbers_of_several_bytes_are_points():
    data = bytearray(116)
    data[0:4] = (1 | 1 << 20).to_bytes(4, "little")     # STATE, DEST_QPN
    data[4] = 3
    data[12:16] = (0xffffff).to_bytes(4, "little")      # rq_psn
    found = used(counts(commands=[command(MODIFY_QP, [OK, BAD_PARAM], bytes(data))]))
    assert {"MODIFY_QP.attr_mask: STATE", "MODIFY_QP.attr_mask: DEST_QPN", "MODIFY_QP.state: RTS",
            "MODIFY_QP.rq_psn: most", "MODIFY_QP.sq_psn: least", "status: BAD_PARAM"} <= found.keys()
    assert not {"MODIFY_QP.state: RESET", "MODIFY_QP.attr_mask: CAP", "MODIFY_QP.rq_psn: least",
                "MODIFY_QP.rq_psn: between"} & found.keys()


def test_counts_of_queues_and_rules_become_points_of_the_table():
    given = counts(recv_wqes=4, cqe_flags=2, port_events=1, rules={"6.13.2": 5})
    given["send_wqes"] = [[0] * 16 for _ in range(16)]
    given["send_wqes"][2][9] = 7                        # RDMA_WRITE with SIGNALED and INLINE
    given["cqes"] = [[0] * 32 for _ in range(32)]
    given["cqes"][16][0], given["cqes"][1][5] = 6, 1    # RECV; flushed
    given["events"] = [0] * 9 + [2] + [0] * 6
    assert used(given) == {
        "send WQE: RDMA_WRITE": 7, "send WQE: SIGNALED": 7, "send WQE: INLINE": 7, "receive WQE: any": 4,
        "CQE: RECV": 6, "CQE: flag IMM": 1, "CQE status: SUCCESS": 6, "CQE status: WR_FLUSH_ERR": 1, "EQE: PORT": 2,
        "EQE PORT: ACTIVE": 1, "rule: 6.13.2": 5}


def test_a_command_that_was_only_refused_uses_no_field():
    refused, done = command(CREATE_CQ, [BAD_PARAM]), command(CREATE_CQ, [OK], cq(5))
    for pair in ([refused, done], [done, refused], [refused, refused]):
        given = coverage_points.of_all([counts(commands=[one]) for one in pair])
        assert given["commands"][0]["statuses"][BAD_PARAM] >= 1
    assert "CREATE_CQ.log_depth: least" not in used(given)


# -- the command --------------------------------------------------------------------

@pytest.fixture(name="devices")
def some_devices(monkeypatch):
    """Counts by guest; "asked" has the names of the properties that were read."""
    found = {"vm0": counts(recv_wqes=1), "vm1": counts(commands=[command(CREATE_CQ, [OK], cq(5))]), "asked": []}

    def read(guest, name):
        found["asked"].append(name)
        return found[guest]
    monkeypatch.setattr(driver_coverage.cluster.Cluster, "nodes", lambda _self: ["vm0", "vm1"])
    monkeypatch.setattr(driver_coverage.cluster.Cluster, "node", lambda _self, name: name)
    monkeypatch.setattr(driver_coverage.cluster.Cluster, "monitor", lambda _self, name: name)
    monkeypatch.setattr(vm, "device_property", read)
    return found


def run(*words):
    options = command_line.parser().parse_args(["driver", "coverage", *map(str, words)])
    return options.function(options)


def test_the_counts_of_all_guests_are_added(devices, capsys):
    assert run() == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].endswith("%")
    assert "command: NOP" in said and " CREATE_CQ " not in said.partition("\n  command:")[2].partition("\n  M")[0]
    assert devices["asked"] == ["coverage", "coverage"]


def test_one_guest_is_chosen_and_its_counts_restart_at_0(devices, capsys):
    assert run("vm0", "--reset") == 0
    assert "CREATE_CQ.log_depth: least between most" in capsys.readouterr().out
    assert devices["asked"] == ["coverage-taken"]


def test_runs_are_merged_by_a_file(devices, capsys, tmp_path):
    file = tmp_path / "counts.json"
    run("vm0", "--merge", file)
    run("vm0", "--merge", file)
    assert json.loads(file.read_text())["recv_wqes"] == 2
    assert list(tmp_path.iterdir()) == [file]
    devices["vm0"] = {}                                  # a device that QEMU has not realized yet
    run("vm0", "--merge", file)
    assert json.loads(file.read_text())["recv_wqes"] == 2
    assert capsys.readouterr().out


@pytest.mark.usefixtures("devices")
def test_files_without_counts_and_unwritable_files_are_errors(tmp_path):
    file = tmp_path / "counts.json"
    for text in ("no JSON", "{}", "[]", '{"commands": 1}'):
        file.write_text(text)
        with pytest.raises(ui.LabError, match="has no counts of a driver"):
            run("--merge", file)
    for option in ("--merge", "--html"):
        with pytest.raises(ui.LabError, match="cannot write"):
            run(option, tmp_path / "missing" / "file")


def test_devices_keep_counts_that_cannot_be_merged(devices, tmp_path):
    (tmp_path / "notes").write_text("no JSON")
    for file in (tmp_path / "notes", tmp_path / "missing" / "file"):
        with pytest.raises(ui.LabError):
            run("--reset", "--merge", file)
    assert devices["asked"] == []
    assert run("vm0", "--reset", "--merge", tmp_path / "new") == 0
    assert devices["asked"] == ["coverage", "coverage-taken"]
    assert json.loads((tmp_path / "new").read_text())["recv_wqes"] == 1


def test_counts_of_another_version_of_the_interface_are_an_error(devices, monkeypatch, tmp_path):
    """The structures have grown; a reset does not lose the devices' counts."""
    file = tmp_path / "counts"
    file.write_text(json.dumps(counts(commands=[command(CREATE_CQ, [OK], cq(5)[:24])])))
    for words in (["--merge", file], ["--reset", "--merge", file]):
        with pytest.raises(ui.LabError, match="another version of the interface"):
            run("vm0", *words)
    assert "coverage-taken" not in devices["asked"]
    monkeypatch.setattr(driver_coverage.cluster.Cluster, "nodes", lambda _lab: [])
    with pytest.raises(ui.LabError, match="another version of the interface"):
        run("--merge", file)


def test_the_word_coverage_after_a_guest_is_no_directory(devices):
    """A user names the guest first. The advice has the words in order."""
    options = command_line.parser().parse_args(["driver", "vm0", "coverage", "--reset"])
    with pytest.raises(ui.LabError, match=r"\./pib driver coverage vm0 .*A directory of this name is \./coverage"):
        options.function(options)
    assert not devices["asked"]


@pytest.mark.usefixtures("devices")
def test_options_of_coverage_need_the_word_coverage():
    options = command_line.parser().parse_args(["driver", "--reset"])
    with pytest.raises(ui.LabError, match="driver coverage"):
        options.function(options)


def test_options_without_an_effect_on_coverage_are_refused(devices, tmp_path):
    file = tmp_path / "counts"
    for words, said in ((["--watch"], "coverage compiles none"),
                        (["--merge", file, "--html", tmp_path / "." / "counts"], "Name two files")):
        with pytest.raises(ui.LabError, match=said):
            run(*words)
    assert devices["asked"] == [] and not file.exists()


def test_a_reset_without_guests_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(driver_coverage.cluster.Cluster, "nodes", lambda _lab: [])
    run("--merge", tmp_path / "counts")
    with pytest.raises(ui.LabError, match="no guest runs whose device"):
        run("--reset", "--merge", tmp_path / "counts")


def test_a_guest_that_is_named_twice_counts_once(devices, tmp_path):
    run("vm0", "vm0", "--merge", tmp_path / "counts")
    assert json.loads((tmp_path / "counts").read_text())["recv_wqes"] == 1 and devices["asked"] == ["coverage"]


@pytest.mark.usefixtures("devices")
def test_the_page_has_the_manuals_tables(tmp_path):
    file = tmp_path / "page.html"
    run("--html", file)
    page = file.read_text(encoding="utf-8")
    assert "<h2>6.13 CREATE_CQ, RESIZE_CQ, DESTROY_CQ</h2>" in page
    row = next(line for line in page.splitlines() if "<td><code>PIB_HCA_CMD_CREATE_CQ</code></td>" in line)
    assert row.startswith('<tr class="used">')
    depth = next(line for line in page.splitlines() if "<td>0 to 22</td>" in line)
    assert "CREATE_CQ: least" in depth and depth.startswith('<tr class="part">')
    assert "](" not in page


def test_each_point_is_in_a_row_of_the_page():
    """A hole that the page does not show cannot be explained."""
    unused = coverage_points.points(INTERFACE, coverage_points.empty())
    page = coverage_page.page(coverage_page.MANUAL.read_text(encoding="utf-8"), INTERFACE, unused)
    assert "REREG_MR.mr.pages: most" in page
    last = page.partition("<h2>In no table</h2>")[2]
    assert last.count("<tr class=") == 1 and "receive WQE: any" in last


def test_without_the_manual_there_is_no_page(monkeypatch, tmp_path):
    monkeypatch.setattr(coverage_page, "MANUAL", tmp_path / "missing.md")
    with pytest.raises(ui.LabError, match="Run the lab of a checkout"):
        coverage_page.write(tmp_path / "page.html", [])
