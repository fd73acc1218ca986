"""Random Python programs over integers, for comparing a kernel with what Python itself makes of the same text."""

import random


class Program:
    """Statements over the variables x, y, z and the array A of 8 elements; all values stay below 997.

    Args:
        seed: what the program is made from.
        staged: whether conditions and loops may depend on values that are known only when a kernel runs. Then loops are
            over `range` and jumps under conditions are allowed.
    """

    def __init__(self, seed, staged):
        self.random = random.Random(seed)
        self.staged = staged
        self.locals = []
        self.counter = 0

    def text(self):
        """The program, without the lines that make its variables."""
        return "\n".join(self.block(depth=0, in_loop=False, count=self.random.randint(4, 9)))

    def block(self, depth, in_loop, count=None):
        kept = len(self.locals)
        lines = []
        for _ in range(count or self.random.randint(1, 3)):
            lines += self.statement(depth, in_loop)
        del self.locals[kept:]
        return lines

    def statement(self, depth, in_loop):
        choice = self.random.random()
        if depth < 3 and choice < 0.16:
            return self.branch(depth, in_loop)
        if depth < 3 and choice < 0.26:
            return self.for_loop(depth)
        if depth < 3 and choice < 0.32:
            return self.while_loop(depth)
        if in_loop and choice < 0.40:
            word = self.random.choice(["break", "continue"])
            return [f"if {self.condition()}:", f"    {word}"]
        if choice < 0.50:
            names = self.random.sample(["x", "y", "z"], self.random.choice([2, 3]))
            return [f"{', '.join(names)} = {', '.join(self.value() for _ in names)}"]
        if choice < 0.58:
            i, j = self.index(), self.index()
            return [f"A[{i}], A[{j}] = A[{j}], {self.value()}"]
        if choice < 0.68:
            return [f"A[{self.index()}] {self.random.choice(['', '+', '-'])}= {self.random.randint(0, 9)}"]
        if choice < 0.76:
            self.counter += 1
            name = f"t{self.counter}"
            line = f"{name} = {self.value()}"
            self.locals.append(name)
            return [line]
        if choice < 0.82:
            return [f"{self.name()} = {self.value()} if {self.condition()} else {self.value()}"]
        if choice < 0.90:
            return [f"{self.name()} {self.random.choice(['+', '-'])}= {self.random.randint(0, 5)}"]
        return [f"{self.name()} = {self.value()}"]

    def branch(self, depth, in_loop):
        lines = [f"if {self.condition()}:", *indented(self.block(depth + 1, in_loop))]
        if self.random.random() < 0.3:
            lines += [f"elif {self.condition()}:", *indented(self.block(depth + 1, in_loop))]
        if self.random.random() < 0.6:
            lines += ["else:", *indented(self.block(depth + 1, in_loop))]
        return lines

    def for_loop(self, depth):
        self.counter += 1
        index = f"i{self.counter}"
        count = self.random.randint(0, 4)
        start = self.random.randint(0, 3)
        if self.staged:
            header = self.random.choice(
                [
                    f"range({count})",
                    f"range({start}, {start + count})",
                    f"range({start + 7}, {start}, -3)",
                    "range(0, y % 5, 2)",
                ]
            )
        else:
            header = f"({', '.join(str(start + k) for k in range(count))}{',' if count == 1 else ''})"
        self.locals.append(index)
        body = self.block(depth + 1, True)
        self.locals.remove(index)
        return [f"for {index} in {header}:", *indented(body)]

    def while_loop(self, depth):
        return [
            f"while {self.condition()} and fuel > 0:",
            *indented(["fuel -= 1", *self.block(depth + 1, True)]),
        ]

    def name(self):
        return self.random.choice("xyz")

    def index(self):
        return self.random.choice([str(self.random.randint(0, 7)), f"{self.name()} % 8"])

    def atom(self):
        return self.random.choice([*"xyz", f"A[{self.index()}]", str(self.random.randint(0, 20)), *self.locals[-3:]])

    def value(self):
        a, b = self.atom(), self.atom()
        text = self.random.choice(
            [
                f"{a} + {b}",
                f"{a} - {b}",
                f"{a} * {self.random.randint(1, 7)}",
                f"{a} // {self.random.randint(1, 5)}",
                f"-{a}",
                f"min({a}, {b})",
                f"max({a}, {b})",
            ]
        )
        return f"({text}) % 997"

    def condition(self):
        a, b = self.atom(), self.atom()
        op = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        text = f"{a} {op} {b}"
        choice = self.random.random()
        if choice < 0.15:
            return f"not {text}"
        if choice < 0.35:
            return f"({text} and {self.atom()} < {self.atom()})"
        if choice < 0.55:
            return f"({text} or {self.atom()} > {self.atom()})"
        if choice < 0.65:
            return f"{self.atom()} <= {self.atom()} < {self.atom()}"
        return text


def indented(lines):
    return ["    " + line for line in lines]
