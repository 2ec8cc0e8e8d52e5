"""A diff taken apart: every line once, with the numbers that people comment on."""

from gigafactory.web.presenters.diff import LINES_MAX, Line, files_in

TWO = """diff --git a/one.py b/one.py
index 1..2 100644
--- a/one.py
+++ b/one.py
@@ -1,3 +1,4 @@ def f():
 a
-b
+B
+++ not a head
 c
\\ No newline at end of file
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+diff --git a/x b/x
diff --git a/logo.png b/logo.png
Binary files a/logo.png and b/logo.png differ
"""


def test_lines_have_their_numbers_and_a_line_that_looks_like_a_head_is_a_line() -> None:
    first, second, third = files_in(TWO)
    assert (first.path, second.path, third.path) == ("one.py", "new.txt", "logo.png")
    assert first.lines == [
        Line("hunk", None, None, "@@ -1,3 +1,4 @@ def f():"),
        Line("same", 1, 1, "a"),
        Line("del", 2, None, "b"),
        Line("add", None, 2, "B"),
        Line("add", None, 3, "++ not a head"),
        Line("same", 3, 4, "c"),
    ]
    assert second.lines[1:] == [Line("add", None, 1, "diff --git a/x b/x")]
    assert third.lines == []


def test_a_diff_that_was_cut_is_shown_as_far_as_it_goes() -> None:
    [file] = files_in("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n")
    assert file.lines[1] == Line("del", 1, None, "a")
    assert files_in("") == []
    assert files_in("words without a head") == []


def test_of_very_many_lines_the_first_are_shown() -> None:
    many = LINES_MAX + 5
    text = f"diff --git a/x b/x\n@@ -0,0 +1,{many} @@\n" + "+y\n" * many
    more = "diff --git a/z b/z\n@@ -0,0 +1 @@\n+y\n"
    [file] = files_in(text + more)
    assert len(file.lines) == LINES_MAX
