#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The description of the interface (hw-interface/*.toml) compared with the headers as the compiler sees
them, the manual's tables, the rules of the core, and the constants for other languages. Arguments: the C compiler."""

import pathlib
import re
import sys
import tomllib
import unittest

import header
import manual
import probe
import test_rules

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "hw-interface"
MANUAL = ROOT / "docs" / "device-spec.md"
COMPILER = ["cc"]
sys.path.insert(0, str(ROOT))

from lab.interface import constants, description, words  # noqa: E402 pylint: disable=wrong-import-position

C_TYPES = {"u8": "__u8", "le16": "__le16", "le32": "__le32", "le64": "__le64", "be32": "__be32"}
# The manual has the ABI of driver and provider, too; the device knows nothing of it.
ABI = set(re.findall(r"pib_hca_\w+|PIB_HCA_\w+", header.COMMENT.sub("", (FOLDER / "pib_hca_abi.h").read_text())))
# Places of a rule's field that the core's tables name by a macro, and the structure that they mean.
STRUCTURES = {"ENTRY": "pib_hca_cmd", "PAGES": "pib_hca_pages", "VECTOR": "pib_hca_av", "AV": "pib_hca_av",
              "SGE": "pib_hca_sge"}
ROW = re.compile(r"\{Rule::(k\w+),\s*(NOTHING|NO_FIELD|STORED|SEND_WQE|RECV_WQE|(\w+)\(([\w., ]+)\))")
FIELDS = {"NOTHING": "", "NO_FIELD": "", "STORED": "value", "SEND_WQE": "send WQE", "RECV_WQE": "receive WQE"}


# A file of the description -> the error about it.
WRONG = {
    '[values.STATE]\nprefix = "S_"\nof = {OFF = 0}\nerrors = "LOST"': "S_: errors has LOST. Name values of S_ only",
    '[[struct]]\nname = "s"\nsize = 4\nfields = [{name = "f", type = "le32[", offset = 0}]':
        "le32[ is not a type. Give one as u8",
    '[[struct]]\nname = "s"\nsize = 4\nfields = [{name = "f", type = "t"}]':
        "s: a field has a type that no file describes. Correct it",
    '[[struct]]\nname = "s"\nsize = 8\nfields = [{name = "f", type = "le32"}]':
        "s has 8 bytes, its fields 4. Correct one of the two",
    '[values.STATE]\nprefix = "S_"\nof = {OFF = 0}\n'
    '[[struct]]\nname = "s"\nsize = 1\nfields = [{name = "f", type = "u8", values = "STATE", of = "OFF LOST"}]':
        "f: of has LOST. Name values of S_ only",
}


def compiler() -> probe.Compiler:
    return probe.Compiler(COMPILER, FOLDER)


def without_abi(found: dict) -> dict:
    return {name: value for name, value in found.items() if name not in ABI}


def structures(interface: description.Interface) -> dict[str, list[tuple[str, int, int]]]:
    return {name: [(field.name, field.offset, field.size) for field in struct.fields]
            for name, struct in interface.structs.items()}


def claims(interface: description.Interface) -> dict[str, int]:
    """Each claim of the description as a C expression and its value."""
    found = dict(interface.constants())
    for name, struct in interface.structs.items():
        found[f"sizeof(struct {name})"] = struct.size
        for field in struct.fields:
            member = f"((struct {name} *)0)->{field.name}"
            kind = C_TYPES.get(field.kind) or f"struct {field.kind}"
            found[f"offsetof(struct {name}, {field.name})"] = field.offset
            found[f"sizeof({member})"] = field.size
            one = f"{member}[0]" if field.count > 1 else member
            found[f"__builtin_types_compatible_p(__typeof__({one}), {kind})"] = 1
    return found


def field_of_rule(what: str, macro: str, arguments: str) -> str:
    if not macro:
        return FIELDS[what]
    names = [one.strip() for one in arguments.split(",")]
    if len(names) == 2:
        return f"pib_hca_{names[0]}.{names[1]}"
    return f"{STRUCTURES[macro]}.{names[0]}" if macro in STRUCTURES else names[0]


def rows_of_commands(text: str) -> list[tuple[str, ...]]:
    rows = next(rows for _, head, rows in manual.tables(text) if head[2:6] == ["object", "input", "output", "result"])
    return [tuple(re.sub(r"`(pib_hca_\w+)` \d+", r"\1", cell).strip("`") for cell in row) for row in rows]


class Description(unittest.TestCase):
    def setUp(self):
        self.interface = description.load(FOLDER)
        self.text = MANUAL.read_text(encoding="utf-8")

    def test_the_headers_have_the_same_values(self):
        read = header.read(FOLDER)
        self.assertEqual({name: [one[0] for one in fields] for name, fields in structures(self.interface).items()},
                         without_abi(read.structs))
        self.assertEqual(set(self.interface.constants()), {name for name in read.constants if name not in ABI})
        expected = claims(self.interface)
        self.assertEqual(probe.numbers(compiler(), list(expected)), expected)

    def test_the_manual_has_the_same_values(self):
        doc = manual.parse(self.text)
        self.assertEqual(structures(self.interface),
                         {name: [(one.name, one.offset, one.size) for one in fields]
                          for name, fields in without_abi(doc.structs).items()})
        registers = {one.name: (one.offset, f"{one.access} {one.width}")
                     for one in self.interface.registers + self.interface.doorbells}
        self.assertEqual(registers, doc.registers)
        named = {name: value for name, value in self.interface.constants().items() if name not in registers}
        self.assertEqual(named, without_abi(doc.constants))

    def test_reset_values_equal_the_manual(self):
        tables = [rows for _, head, rows in manual.tables(self.text) if head[3:5] == ["reset", "name"]]
        self.assertEqual([(one.name, one.reset) for one in self.interface.registers + self.interface.doorbells],
                         [(row[4].strip("`"), row[3]) for rows in tables for row in rows])

    def test_commands_equal_the_manual(self):
        self.assertEqual([(f"PIB_HCA_CMD_{one.name}", f"{one.opcode:#04x}", one.object, one.input, one.output,
                           one.result) for one in self.interface.commands], rows_of_commands(self.text))

    def test_rules_equal_those_of_the_manual_and_of_the_core(self):
        ours = {one.number: one.answer for one in self.interface.rules}
        self.assertEqual(len(ours), len(self.interface.rules))
        self.assertEqual(ours, {number: answer for _, number, answer, _ in test_rules.rules_of_manual()})
        self.assertEqual(ours, dict(test_rules.rules_of_code().values()))
        of_manual = {row[0]: row[2] for _, head, rows in manual.tables(self.text)
                     if head[0] == "rule" and len(head) == 4 for row in rows}
        self.assertEqual({one.number: one.of for one in self.interface.rules if one.of}, of_manual)

    def test_fields_of_rules_equal_those_of_the_core(self):
        numbers = {name: number for name, (number, _) in test_rules.rules_of_code().items()}
        tables = "".join(path.read_text("utf-8") for path in (test_rules.CORE / "rules").glob("*rule_table.*"))
        self.assertEqual({one.number: one.field for one in self.interface.rules},
                         {numbers[name]: field_of_rule(*rest) for name, *rest in ROW.findall(tables)})

    def test_fields_of_rules_exist(self):
        for rule in self.interface.rules:
            struct, dot, name = rule.field.partition(".")
            if dot:
                names = {field.name for field in self.interface.structs[struct].fields}
                self.assertIn(name.partition(".")[0], names, rule.number)

    def test_a_field_with_a_range_has_a_rule(self):
        """Fields of outputs, and ranges that the type itself enforces, need no rule."""
        inputs = {one.input for one in self.interface.commands} | {"pib_hca_pages", "pib_hca_av", "pib_hca_wqe_ud"}
        ruled = {rule.field for rule in self.interface.rules}
        for struct in (self.interface.structs[name] for name in inputs if name in self.interface.structs):
            for field in struct.fields:
                if field.least is not None:
                    self.assertIn(f"{struct.name}.{field.name}", ruled)

    def test_errors_name_the_wrong_word_and_what_to_do(self):
        for text, said in WRONG.items():
            with self.subTest(said), self.assertRaises(ValueError) as refused:
                description.parse([tomllib.loads(text)])
            self.assertIn(said, str(refused.exception))

    def test_numbers_lie_at_multiples_of_their_size(self):
        for struct in self.interface.structs.values():
            for field in struct.fields:
                if field.is_number:
                    self.assertEqual(field.offset % field.size, 0, f"{struct.name}.{field.name}")


class Languages(unittest.TestCase):
    def setUp(self):
        self.constants = constants.all_of(description.load(FOLDER))

    def test_python_constants_equal_the_headers(self):
        names: dict[str, int] = {}
        exec(constants.python(self.constants), names)       # pylint: disable=exec-used
        self.assertEqual({name: names[name] for name in self.constants}, self.constants)
        self.assertEqual(names["PIB_HCA_CREATE_CQ_LOG_DEPTH_OFFSET"], 24)

    def test_rust_constants_equal_the_headers(self):
        lines = constants.rust(self.constants)
        found = re.findall(r"^pub const ([A-Z_0-9]+): (u32|u64) = (0x[0-9a-f]+);$", lines, re.MULTILINE)
        self.assertEqual({name: int(value, 16) for name, _, value in found}, self.constants)
        self.assertTrue(all(int(value, 16) < 1 << int(kind[1:]) for _, kind, value in found))


class Words(unittest.TestCase):
    """The worked example of the manual, printed field by field."""

    def setUp(self):
        self.interface = description.load(FOLDER)
        self.examples = {tuple(one.structs): one for one in manual.parse(MANUAL.read_text()).examples}

    def bytes_of(self, *structs: str) -> bytes:
        size = sum(self.interface.structs[name].size for name in structs)
        return bytes(self.examples[structs].dump.get(at, 0) for at in range(size))

    def test_a_send_wqe_is_printed_field_by_field(self):
        data = self.bytes_of("pib_hca_wqe_control", "pib_hca_wqe_rdma", "pib_hca_sge")
        shown = "\n".join(words.send_wqe(self.interface, data))
        for line in ("0: opcode = RDMA_WRITE (0x2)", "1: flags = SIGNALED (0x1)", "24: rkey = 0xc0de07 (12639751)",
                     "44: lkey = 0xf5021e01 (4110556673)"):
            self.assertIn(line, shown)

    def test_inputs_of_commands_are_printed_field_by_field(self):
        for command in self.interface.commands:
            if (command.input,) in self.examples:
                shown = "\n".join(words.of_command(self.interface, command.opcode, self.bytes_of(command.input)))
                self.assertNotIn(", not ", shown)       # no value out of its range
                self.assertNotIn("reserved", shown)
        create = self.bytes_of("pib_hca_create_qp")
        shown = words.of_command(self.interface, 0x50, create[:50] + b"\x1f" + create[51:])
        self.assertIn("     50: log_sq_depth = 0x1f (31), not 0 to 14", shown)
        self.assertIn("     48: type = RC (0x2)", shown)

    def test_each_operation_but_sends_has_a_segment(self):
        operations = set(self.interface.names["wqe_opcode"].of)
        self.assertEqual(operations - set(words.SEGMENTS), {"SEND", "SEND_WITH_IMM", "SEND_WITH_INV"})
        self.assertLessEqual({f"pib_hca_wqe_{name}" for name in words.SEGMENTS.values()}, set(self.interface.structs))

    def test_the_key_of_an_invalidation_is_little_endian(self):
        control = "07010000" "3026538a" + "00" * 8
        self.assertIn("      4: imm_data = 0x8a532630 (2320705072)",
                      words.send_wqe(self.interface, bytes.fromhex(control)))
        self.assertIn("      4: imm_data = 0x3026538a (807818122)",
                      words.send_wqe(self.interface, bytes.fromhex("01" + control[2:])))
        cqe = bytearray(64)
        cqe[12:16], cqe[27] = bytes.fromhex("3026538a"), 1 << 3
        self.assertIn("imm_data 0x8a532630", words.brief(self.interface, "pib_hca_cqe", bytes(cqe)))
        cqe[27] = 1 << 1
        self.assertIn("imm_data 0x3026538a", words.brief(self.interface, "pib_hca_cqe", bytes(cqe)))

    def test_truncated_wqes_inline_data_and_datagrams_are_printed(self):
        control = bytes.fromhex("00090000" "00000000" "02000000" "00000000")
        self.assertEqual(words.send_wqe(self.interface, control + b"\xab\xcd")[-1], " 16: data = ab cd")
        datagram = "\n".join(words.send_wqe(self.interface, control[:1] + bytes(63), "UD"))
        self.assertIn("16: av: pib_hca_av", datagram)
        self.assertIn("(ends here)", "\n".join(words.recv_wqe(self.interface, b"\x01\x00\x00\x00")))
        self.assertEqual(words.of_command(self.interface, 0, b""), [])


if __name__ == "__main__":
    COMPILER = sys.argv[1:] or COMPILER
    unittest.main(argv=sys.argv[:1], verbosity=2)
