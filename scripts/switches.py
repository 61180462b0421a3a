"""Puts changes that cargo-mutants lists into a source behind switches, for `scripts/mutants`."""

import collections
import re
import sys

SWITCH = """
/// Whether the change with this number is on.
#[doc(hidden)]
pub fn __changed(number: u32) -> bool {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::{io::Write, sync::{Mutex, OnceLock}};
    static CHOSEN: OnceLock<Option<u32>> = OnceLock::new();
    static TRACE: OnceLock<Option<Mutex<std::fs::File>>> = OnceLock::new();
    static REACHED: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];
    let chosen = CHOSEN.get_or_init(|| std::env::var("CHANGE").ok().and_then(|change| change.parse().ok()));
    if let Some(chosen) = chosen {
        return *chosen == number;
    }
    if !REACHED[number as usize].swap(true, Ordering::Relaxed) {
        let open = || std::env::var_os("CHANGE_TRACE").map(|path| Mutex::new(std::fs::File::create(path).unwrap()));
        if let Some(file) = TRACE.get_or_init(open) {
            file.lock().unwrap().write_all(format!("{number}\\n").as_bytes()).unwrap();
        }
    }
    false
}
"""


def around(node, start, end, kinds):
    """The smallest node of one of these kinds that holds start..end, or None."""
    found = None
    while node:
        if node.type in kinds:
            found = node
        node = next((one for one in node.children if one.start_byte <= start and end <= one.end_byte), None)
    return found


class Source:
    """A source file and its changes."""

    def __init__(self, name, text, changes, parser):
        self.name, self.changes, self.bytes = name, changes, text
        self.root = parser.parse(self.bytes).root_node
        self.lines = self.bytes.decode().split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line.encode()) + 1)
        # Functions that have to stay `const`, by where they begin.
        self.constant = set()

    def at(self, place):
        line, column = place["line"] - 1, place["column"] - 1
        return self.starts[line] + len(self.lines[line][:column].encode())

    def functions(self):
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.type == "function_item":
                yield node
            waiting.extend(node.children)

    def keep_const(self, name):
        """Leaves functions with this name `const`; returns whether that is new."""
        named = [one for one in self.functions() if one.child_by_field_name("name").text.decode() == name]
        new = {one.start_byte for one in named if const_word(one)} - self.constant
        self.constant |= new
        return bool(new)

    def switched(self, active):
        """The text with the active changes behind switches, and the numbers of those that cannot have one."""
        inserted = Insertions(self.bytes)
        impossible, expressions, arms, not_const = set(), collections.defaultdict(list), {}, set()
        for number in active & self.changes.keys():
            change = self.changes[number]
            start, end = self.at(change["span"]["start"]), self.at(change["span"]["end"])
            replacement = change["replacement"]
            function = around(self.root, start, end, {"function_item"})
            if function and const_word(function):
                if function.start_byte in self.constant:
                    impossible.add(number)
                    continue
                not_const.add(const_word(function))
            match change["genre"]:
                case "FnValue" if "impl " in change["function"]["return_type"]:
                    impossible.add(number)
                case "FnValue":
                    inserted.before(start, -1, f"/*<{number}*/if crate::__changed({number}) {{ return {replacement}; }}/*>*/")
                case "BinaryOperator":
                    node = around(self.root, start, end, {"binary_expression", "compound_assignment_expr"})
                    # `||` in a chain of `let` is no Rust.
                    if not node or any(one.type == "let_condition" for one in node.children):
                        impossible.add(number)
                    else:
                        expressions[node.start_byte, node.end_byte].append((number, start, end, replacement))
                case "UnaryOperator":
                    node = around(self.root, start, end, {"unary_expression"})
                    expressions[node.start_byte, node.end_byte].append((number, start, end, ""))
                case "StructField":
                    node = around(self.root, start, end, {"struct_expression"})
                    comma = re.match(rb"\s*,", self.bytes[end : node.end_byte])
                    end += comma.end() if comma else 0
                    expressions[node.start_byte, node.end_byte].append((number, start, end, ""))
                case "MatchArm" | "MatchArmGuard":
                    node = around(self.root, start, end, {"match_arm"})
                    kind = "delete" if change["genre"] == "MatchArm" else replacement
                    arms.setdefault(node.start_byte, (node, {}))[1][kind] = number
                case other:
                    sys.exit(f"unknown kind of change: {other}")
        for (start, end), ways in expressions.items():
            text = "("
            for number, cut, after, replacement in ways:
                changed = self.bytes[start:cut].decode() + replacement + self.bytes[after:end].decode()
                text += f"/*<{number}*/if crate::__changed({number}) {{ {changed} }}/*>*/ else "
            inserted.around(start, end, text + "{ ", " })")
        for node, kinds in arms.values():
            impossible |= switch_arm(node, kinds, inserted)
        for start, end in not_const:
            inserted.around(start, end, "/*", "*/")
        return inserted.text(), impossible


def const_word(function):
    modifiers = [one for one in function.children if one.type == "function_modifiers"]
    words = [word for one in modifiers for word in one.children if word.type == "const"]
    return (words[0].start_byte, words[0].end_byte) if words else None


def switch_arm(node, kinds, inserted):
    """Switches an arm of a match off, and its guard to `true` and `false`."""
    pattern = node.child_by_field_name("pattern")
    guard = pattern.child_by_field_name("condition")
    marks, shut = "".join(f"/*<{number}*/" for number in kinds.values()), "/*>*/" * len(kinds)
    exists = f"!crate::__changed({kinds['delete']})" if "delete" in kinds else "true"
    if guard is None:
        inserted.after(pattern.end_byte, 1 << 40, f" {marks}if {exists}{shut} ")
        return set()
    if guard.type in ("let_condition", "let_chain"):
        return set(kinds.values())
    always = f"crate::__changed({kinds['true']})" if "true" in kinds else "false"
    may = f"!crate::__changed({kinds['false']})" if "false" in kinds else "true"
    # Around a switch of the whole guard.
    inserted.before(guard.start_byte, guard.end_byte - guard.start_byte + 1, f"{marks}{exists} && ({always} || ({may} && ({shut}")
    inserted.after(guard.end_byte, guard.end_byte - guard.start_byte + 1, ")))")
    return set()


class Insertions:
    """Texts to insert into a source, nested as what they stand around is."""

    def __init__(self, source):
        self.source = source
        self.opening, self.closing = collections.defaultdict(list), collections.defaultdict(list)

    def before(self, place, width, text):
        self.opening[place].append((-width, text))

    def after(self, place, width, text):
        self.closing[place].append((width, text))

    def around(self, start, end, opening, closing):
        self.before(start, end - start, opening)
        self.after(end, end - start, closing)

    def text(self):
        pieces, last = [], 0
        for place in sorted(self.opening.keys() | self.closing.keys()):
            pieces.append(self.source[last:place])
            last = place
            pieces += [text.encode() for _, text in sorted(self.closing.get(place, []))]
            # Narrower ones stand inside.
            pieces += [text.encode() for _, text in sorted(self.opening.get(place, []))]
        return b"".join([*pieces, self.source[last:]])


def blamed(text, start, end):
    """The changes that stand around start..end, the innermost alone, or that begin within."""
    opened, outer, within = [], [], []
    for mark in re.finditer(rb"/\*<(\d+)\*/|/\*>\*/", text):
        if mark[1]:
            opened.append((mark.start(), int(mark[1])))
        elif opened:
            began, number = opened.pop()
            if began <= start and end <= mark.end():
                outer.append((began, number))
            elif began < end and start < mark.end():
                within.append(number)
    return [number for _, number in sorted(outer)[-1:]] or within
