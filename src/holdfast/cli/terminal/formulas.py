r"""A formula in TeX as text that reads: `\frac{a+b}{2} \le x_1^2` becomes `(a+b)/2 ≤ x₁²`.

What is not known stands there by its name, and nothing ever fails: a model's formula may be cut off anywhere.
"""

# ruff: noqa: RUF001 - signs of mathematics look like letters

import re
import unicodedata

TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\s+|.", re.DOTALL)
LONGEST = 5_000
"""A longer formula is shown as it was written."""

RAISED = str.maketrans("0123456789+-−=()niaxyjkmtT", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱᵃˣʸʲᵏᵐᵗᵀ")
LOWERED = str.maketrans("0123456789+-−=()aeijknmtxp", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑᵢⱼₖₙₘₜₓₚ")


def _words(table: str) -> frozenset[str]:
    return frozenset(table.split())


def _pairs(table: str) -> dict[str, str]:
    """A table of names and signs."""
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


# Relations and arrows stand between spaces, as in print.
BETWEEN = _pairs(
    "le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ propto ∝ ll ≪ gg ≫ in ∈ notin ∉ "
    "subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ mid | perp ⊥ to → rightarrow → leftarrow ← Rightarrow ⇒ "
    "Leftarrow ⇐ gets ← leftrightarrow ↔ Leftrightarrow ⇔ iff ⇔ implies ⇒ mapsto ↦ longrightarrow ⟶ land ∧ "
    "wedge ∧ lor ∨ vee ∨ cup ∪ cap ∩ pm ± mp ∓ times × div ÷ cdot · setminus ∖ oplus ⊕ otimes ⊗ circ ∘ ast ∗ "
    "vdash ⊢ models ⊨ coloneqq ≔"
)
SIGNS = _pairs(
    "sum ∑ prod ∏ int ∫ iint ∬ oint ∮ infty ∞ partial ∂ nabla ∇ forall ∀ exists ∃ neg ¬ lnot ¬ emptyset ∅ "
    "varnothing ∅ ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ prime ′ angle ∠ degree ° ell ℓ hbar ℏ Re ℜ Im ℑ "
    "aleph ℵ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ lbrace { rbrace } vert | Vert ‖ square □ "
    "top ⊤ bot ⊥ dagger † checkmark ✓ therefore ∴ because ∵ varepsilon ε vartheta ϑ varphi φ varrho ϱ "
    "varsigma ς varpi ϖ"
)
SPACES = {",": " ", ";": " ", ":": " ", ">": " ", " ": " ", "!": "", "quad": "  ", "qquad": "  "}
DROPPED = _words(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr middle displaystyle textstyle limits nolimits "
    "nonumber notag hline"
)
ACCENTS = {"hat": "\u0302", "bar": "\u0304", "vec": "\u20d7", "tilde": "\u0303", "dot": "\u0307"}
ACCENTS |= {"widehat": "\u0302", "overline": "\u0304", "widetilde": "\u0303", "ddot": "\u0308"}
AS_IT_IS = _words(
    "text textbf textit textrm texttt mathrm mathbf mathit mathsf mathtt mathcal mathscr mathfrak "
    "boldsymbol bm operatorname boxed mbox phantom"
)
NAMED = _words(
    "log ln lg exp sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh max min sup inf lim "
    "limsup liminf det dim ker gcd deg arg Pr mod bmod"
)
DOUBLE = dict(zip("NZQRCPEFH", "ℕℤℚℝℂℙ𝔼𝔽ℍ", strict=True))
# A number, a letter with what is raised or lowered at it, or a word: `x/2a` would read as `(x/2)a`.
ONE_THING = re.compile(r"[\d.]+|[^\W\d][²³¹⁰-ₜ\u0300-\u036f]*|[^\W\d]{4,}|\(.*\)|√\w")


def formula_text(tex: str) -> str:
    """The formula as text."""
    if len(tex) > LONGEST:
        return tex
    text = _Formula(tex).all()
    lines = [re.sub(r" {2,}", " ", line).strip() for line in text.split("\n")]
    return "\n".join(line for line in lines if line) or tex.strip()


class _Formula:
    """Reads a formula from left to right."""

    def __init__(self, tex: str) -> None:
        self._tokens = TOKEN.findall(tex)
        self._place = 0

    def all(self) -> str:
        """Everything; a bracket that closes nothing is left out."""
        parts = []
        while self._place < len(self._tokens):
            parts.append(self._until("}"))
        return "".join(parts)

    def _until(self, end: str) -> str:
        parts: list[str] = []
        while (part := self._next()) not in ("", end):
            parts.append(self._shown(part))
        return "".join(parts)

    def _next(self) -> str:
        part = self._tokens[self._place] if self._place < len(self._tokens) else ""
        self._place += 1
        return part

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _argument(self) -> str:
        while self._peek().isspace():
            self._next()
        part = self._next()
        return self._until("}") if part == "{" else self._shown(part) if part else ""

    def _shown(self, part: str) -> str:
        if part == "{":
            return self._until("}")
        if part in ("^", "_"):
            return self._moved(part)
        if part.startswith("\\") and len(part) > 1:
            return self._command(part[1:].rstrip("*"))
        if part == "-":
            return "−"
        if part == "~" or part.isspace():
            return " "
        return "" if part == "&" else part

    def _moved(self, sign: str) -> str:
        """A part that is raised or lowered; with a sign where there are no such letters."""
        text = self._argument().strip()
        table = RAISED if sign == "^" else LOWERED
        if text in ("′", "∘"):
            return "′" if text == "′" else "°"
        if all(ord(letter) in table for letter in text.replace(" ", "")):
            return text.replace(" ", "").translate(table)
        return f"{sign}{text}" if len(text) == 1 else f"{sign}({text})"

    def _command(self, name: str) -> str:
        if name in BETWEEN:
            return f" {BETWEEN[name]} "
        if name in SIGNS or name in SPACES:
            return SIGNS.get(name) or SPACES.get(name, "")
        if name == "\\":
            return "\n"
        if name in DROPPED:
            return self._dropped()
        if name in NAMED:
            following = self._peek()
            return f"{name} " if following.isalnum() or following.startswith("\\") else name
        return self._with_argument(name)

    def _dropped(self) -> str:
        if self._peek() == ".":  # a bracket that is not drawn
            self._next()
        return ""

    def _with_argument(self, name: str) -> str:
        if name in ("frac", "dfrac", "tfrac", "cfrac"):
            return f"{_bracketed(self._argument())}/{_bracketed(self._argument())}"
        if name in ("binom", "dbinom"):
            return f"C({self._argument()}, {self._argument()})"
        if name == "sqrt":
            return self._root()
        if name in ACCENTS:
            text = self._argument()
            return text + ACCENTS[name] if len(text) == 1 else f"{name}({text})"
        if name == "mathbb":
            return "".join(DOUBLE.get(letter, letter) for letter in self._argument())
        if name in AS_IT_IS:
            return self._argument()
        if name in ("begin", "end"):
            return self._block(name)
        return _greek(name)

    def _root(self) -> str:
        degree = ""
        if self._peek() == "[":
            self._next()
            degree = self._until("]").strip().translate(RAISED)
        return f"{degree}√{_bracketed(self._argument())}"

    def _block(self, name: str) -> str:
        kind = self._argument().rstrip("*")
        if name == "end":
            return ""
        rows, cells = [], [""]
        while part := self._next():
            if part == "\\end":
                self._argument()
                break
            if part == "&":
                cells.append("")
            elif part == "\\\\":
                rows.append(cells)
                cells = [""]
            else:
                cells[-1] += self._shown(part)
        table = [[cell.strip() for cell in row] for row in (*rows, cells) if any(map(str.strip, row))]
        if kind.endswith("matrix"):
            return "[" + "; ".join(" ".join(row) for row in table) + "]"
        if kind == "cases":
            return "{ " + "; ".join(", ".join(row) for row in table) + " }"
        return "\n" + "\n".join(" ".join(filter(None, row)) for row in table) + "\n"


def _bracketed(text: str) -> str:
    text = text.strip()
    return text if ONE_THING.fullmatch(text) else f"({text})"


def _greek(name: str) -> str:
    """A Greek letter, or the name of what is not known."""
    size = "CAPITAL" if name[:1].isupper() else "SMALL"
    # Unicode spells this letter in its own way.
    spelled = {"LAMBDA": "LAMDA"}.get(name.upper(), name.upper())
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {spelled}")
    except KeyError:
        return name if len(name) > 1 else name.strip()
