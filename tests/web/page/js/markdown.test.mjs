// The blocks of `markdown.js`: finished ones are kept as they are while the rest streams in.
import assert from "node:assert/strict";
import test from "node:test";

globalThis.window = globalThis;
const { blocksOf, formulaBegun } = await import(new URL("markdown.js", process.env.HOLDFAST_PAGE));

const TEXT = "# Title\n\nSome *text* here,\nand more.\n\n- one\n- two\n\n  still two\n\n```py\ncode\n\nmore\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$$x^2$$\n\nThe end.";
const shape = ({ blocks }) => blocks.map((token) => `${token.type}: ${token.raw.trim()}`);

test("a text that streams in ends as the blocks of the whole text", () => {
  for (const step of [1, 3, 7, 50]) {
    let parsed = null;
    for (let end = 0; end <= TEXT.length + step; end += step) parsed = blocksOf(TEXT.slice(0, end), parsed);
    assert.deepEqual(shape(parsed), shape(blocksOf(TEXT)), `in steps of ${step}`);
  }
});

test("a finished block is the very same object afterwards", () => {
  const before = blocksOf("First.\n\nSecond.\n\nThi");
  const after = blocksOf("First.\n\nSecond.\n\nThird.", before);
  assert.equal(after.blocks[0], before.blocks[0]);
  assert.equal(after.blocks[1], before.blocks[1]);
  assert.equal(after.blocks[2].raw, "Third.");
});

test("a text that is another one begins anew", () => {
  const before = blocksOf("First.\n\nSecond.\n\nThird.");
  assert.deepEqual(shape(blocksOf("Else.\n\nWholly.", before)), ["paragraph: Else.", "paragraph: Wholly."]);
});

test("formulas are kept whole, and prices are not formulas", () => {
  const kinds = (text) => blocksOf(text).blocks[0].tokens.map((token) => token.type);
  assert.deepEqual(kinds("with $a_b$ and \\(c_d\\)."), ["text", "mathsInline", "text", "mathsInline", "text"]);
  assert.deepEqual(kinds("from $5 to $6."), ["text"]);
  assert.equal(blocksOf("$$\nx\n$$").blocks[0].type, "mathsBlock");
});

test("a displayed formula is known as one before its end has come, and nothing else is", () => {
  const begun = (text) => formulaBegun(blocksOf(text).blocks.at(-1));
  assert.equal(begun("So:\n\n$$\n\\frac{a}{b"), "\\frac{a}{b");
  assert.equal(begun("\\[ x_1"), "x_1");
  assert.equal(begun("$$"), "");
  for (const text of ["$$x^2$$", "$$a$$ and more", "$5", "so $$", "\\[x\\]", "- $$x"]) assert.equal(begun(text), null, text);
});
