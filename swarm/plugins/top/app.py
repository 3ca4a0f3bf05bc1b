"""The frames of `swarm top` in a terminal, with keys. Draws alone: what a frame shows is decided in frame.py.

timer ─▶ reader.look in a thread ─▶ Frame ─▶ widgets, of which only what changed is drawn
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from swarm.errors import StoreError
from swarm.harmless import printable_lines
from swarm.plugins.top.frame import COLUMNS, LEFT, Frame, fitted
from swarm.plugins.top.reader import TopLook, TopReader
from swarm.views.looks import Looks

HELP = """\
up, down     choose a node
enter, n     the chosen node: curves, tasks, whom it learnt from
r            its newest answers, with rewards and advantages
a            everybody's newest answers
l            its last events
e            everybody's last events
?            this
escape, q    back; q leaves

The curve of a node is its mean reward over all its rounds so far, all on one scale, which the head names.
"I/J" are its own groups and those of peers that it wants; "busy" the share of its last round in which it computed;
"seen" says how many of its own heartbeats are overdue, if they are; "learns from" counts the groups of each peer
that it trained on in its last round. Rewards are what publishers claim."""
_PAGE_EVERY = 2.0
"""Seconds after which a page is read again."""


class TextPage(ModalScreen[None]):
    """A text over the whole terminal, to be scrolled."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "app.pop_screen", "back")]
    CSS = """
    TextPage { background: $background; }
    TextPage VerticalScroll { height: 1fr; }
    TextPage #title { text-style: bold; }
    """

    def __init__(self, title: str, text: Callable[[int], str], *, again: bool) -> None:
        """Args:
        title: the first line.
        text: for so many columns; read in a thread.
        again: read it again while it is shown.
        """
        super().__init__()
        self._title, self._text, self._again = title, text, again
        self._shown = ""

    def compose(self) -> ComposeResult:
        yield Static(Text(printable_lines(self._title)), id="title")
        with VerticalScroll():
            yield Static(Text("reading ..."), id="text")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.read()
        if self._again:
            self.set_interval(_PAGE_EVERY, self.read)

    def on_resize(self) -> None:
        self.read()

    @work(thread=True, exclusive=True)
    def read(self) -> None:
        text = self._text(max(20, self.app.size.width - 2))
        self.app.call_from_thread(self.show, text)

    def show(self, text: str) -> None:
        if text != self._shown and self.is_mounted:
            self._shown = text
            self.query_one("#text", Static).update(Text(printable_lines(text)))


class TopApp(App[None]):
    """A run live."""

    TITLE = "swarm top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "node", "node"),
        Binding("r", "groups(True)", "answers"),
        Binding("a", "groups(False)", "all answers"),
        Binding("l", "events(True)", "log"),
        Binding("e", "events(False)", "all logs"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "quit", "quit"),
    ]
    CSS = """
    #head { height: auto; text-style: bold; }
    #nodes { height: auto; max-height: 60%; }
    #notes { height: auto; color: $warning; }
    """

    def __init__(self, reader: TopReader, every: float, wall: Callable[[], float]) -> None:
        """Args:
        reader: of the run.
        every: seconds between two frames.
        wall: Unix seconds.
        """
        super().__init__()
        self._reader, self._wall = reader, wall
        self._reading = Lock()
        """Held by the thread that reads: one look or page at a time."""
        self._last: TopLook | None = None
        self._looks = Looks(reader.run.store, every)

    def compose(self) -> ComposeResult:
        yield Static(Text("reading ..."), id="head")
        yield DataTable[Text](id="nodes", cursor_type="row", zebra_stripes=False)
        yield Static(Text(""), id="notes")
        yield Footer()

    def on_mount(self) -> None:
        nodes = self.query_one(DataTable)
        for name in COLUMNS:
            nodes.add_column(name, key=name)
        nodes.focus()
        self.look()

    @work(thread=True)
    def look(self) -> None:
        try:
            with self._reading:
                found = self._reader.look(self._wall())
        except StoreError as error:
            self.call_from_thread(self.say, f"cannot be read now: {error}")
        else:
            self.call_from_thread(self.show, found)
        self.call_from_thread(self.set_timer, self._looks.pause(news=True), self.look)

    def say(self, text: str) -> None:
        """Shows a text in the place of what is wrong with nodes."""
        self._update("notes", text)

    def show(self, look: TopLook, columns: int = 0) -> None:
        """Draw a frame. `columns`: of the terminal; 0: as it is."""
        self._last = look
        frame, width = look.frame, max(20, columns or self.size.width)
        self._update("head", "\n".join(fitted(line, width) for line in frame.head))
        self._show_nodes(frame)
        more = [f"and {frame.more_nodes} more nodes"] if frame.more_nodes else []
        self._update("notes", "\n".join(fitted(line, width) for line in (*more, *frame.notes)))

    def _update(self, part: str, text: str) -> None:
        self.screen_stack[0].query_one(f"#{part}", Static).update(Text(printable_lines(text), no_wrap=True))

    def _show_nodes(self, frame: Frame) -> None:
        nodes = self.screen_stack[0].query_one(DataTable)
        if [row.value for row in nodes.rows] != [line.node for line in frame.nodes]:
            chosen = nodes.cursor_row
            nodes.clear()
            for line in frame.nodes:
                nodes.add_row(*(_cell(line.cells[i], i, live=line.live) for i in range(len(COLUMNS))), key=line.node)
            nodes.move_cursor(row=chosen)
            return
        for line in frame.nodes:
            for i, name in enumerate(COLUMNS):
                cell = _cell(line.cells[i], i, live=line.live)
                if nodes.get_cell(line.node, name) != cell:
                    nodes.update_cell(line.node, name, cell, update_width=True)

    def on_resize(self, event: Resize) -> None:
        if self._last:
            self.show(self._last, event.size.width)

    @property
    def _chosen(self) -> str:
        nodes = self.screen_stack[0].query_one(DataTable)
        frame = self._last.frame if self._last else None
        return frame.nodes[nodes.cursor_row].node if frame and nodes.cursor_row < len(frame.nodes) else ""

    def on_data_table_row_selected(self) -> None:
        self.action_node()

    def action_node(self) -> None:
        if (node := self._chosen) and self._last:
            self._open(f"node {node}", lambda width: self._node_text(node, width), again=True)

    def _node_text(self, node: str, width: int) -> str:
        return self._reader.node_text(self._last, node, width) if self._last else ""

    def action_groups(self, of_chosen: bool) -> None:
        node = self._chosen if of_chosen else ""
        self._open(f"newest answers of {node or 'all nodes'}", lambda width: self._reader.groups_text(node, width))

    def action_events(self, of_chosen: bool) -> None:
        node = self._chosen if of_chosen else ""
        self._open(f"last events of {node or 'all nodes'}", lambda _: self._reader.events_text(node), again=True)

    def action_help(self) -> None:
        self._open("keys", lambda _: HELP)

    def _open(self, title: str, text: Callable[[int], str], *, again: bool = False) -> None:
        def read(width: int) -> str:
            with self._reading:
                try:
                    return text(width)
                except StoreError as error:
                    return f"cannot be read now: {error}"

        if len(self.screen_stack) == 1:
            self.push_screen(TextPage(title, read, again=again))


def _cell(text: str, column: int, *, live: bool) -> Text:
    return Text(text, style="" if live else "dim", justify="left" if column in LEFT else "right")
