from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gputop import places
from gputop.errors import GputopError
from gputop.settings.file import load_settings, read_settings, save_settings
from gputop.settings.values import Settings
from gputop.tui.screens.settings import SettingsScreen
from gputop.tui.widgets.form import Form
from tests.tui.kit import SIZES, ScreenApp, text_of, view_of, whole_app


def write(text: str) -> Path:
    path = places.config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_no_file_means_the_defaults() -> None:
    assert load_settings() == Settings()
    assert read_settings().problems == ()


def test_what_is_saved_is_read_again() -> None:
    settings = Settings(
        interval_s=0.5, theme="light", ascii=True, density="compact", log_axis=True, smoothing=0.9, per_rank=True
    )
    path = save_settings(settings)
    assert path == places.config_path()
    assert load_settings() == settings


def test_comments_unknown_keys_and_tables_stay() -> None:
    path = write('# mine\ntheme = "dark"  # at night\ngpus = ["0"]\nfuture = 1\n\n[remote]\ntheme = "x"\n')
    save_settings(Settings(theme="light"))
    text = path.read_text()
    assert "# mine" in text
    assert "future = 1" in text
    assert text.endswith('[remote]\ntheme = "x"\n')
    loaded = read_settings()
    assert loaded.settings.theme == "light"
    assert loaded.settings.gpus == ("0",)
    assert any("'future' is not a gputop setting" in problem.message for problem in loaded.problems)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("interval_s = 0", "a number of seconds from 0.1"),
        ("interval_s = true", "a number of seconds from 0.1"),
        ('interval_s = "fast"', "a number of seconds from 0.1"),
        ("smoothing = 1.5", "a number from 0 to 0.99"),
        ("ascii = 1", "true or false"),
        ('density = "huge"', "one of auto, full, compact"),
        ("theme = 3", "one of auto, dark, light"),
        ("gpus = [1.5]", "a list of GPU"),
    ],
)
def test_an_invalid_value_is_reported_and_the_rest_is_used(line: str, words: str) -> None:
    write(f"{line}\nlog_axis = true\n")
    loaded = read_settings()
    (problem,) = loaded.problems
    assert words in problem.message
    assert loaded.settings == Settings(log_axis=True)
    assert not loaded.broken


def test_a_broken_file_is_reported_ignored_and_not_overwritten() -> None:
    path = write("theme = = dark")
    loaded = read_settings()
    assert loaded.broken
    assert "not valid TOML" in loaded.problems[0].message
    assert loaded.settings == Settings()
    with pytest.raises(GputopError, match="not valid TOML"):
        save_settings(Settings(theme="light"))
    assert path.read_text() == "theme = = dark"
    save_settings(Settings(theme="light"), overwrite_broken=True)
    assert load_settings().theme == "light"


def test_a_layout_that_cannot_be_changed_safely_is_left_alone() -> None:
    text = 'theme = """\nlog_axis = false\n"""\n'
    path = write(text)
    with pytest.raises(GputopError, match="by hand"):
        save_settings(Settings())
    assert path.read_text() == text


def test_a_directory_that_cannot_be_written_is_reported() -> None:
    places.config_path().parent.parent.mkdir(parents=True)
    places.config_path().parent.write_text("a file where the directory should be")
    with pytest.raises(GputopError, match="cannot be"):
        save_settings(Settings())


def test_a_link_into_a_dotfiles_repository_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("")
    path = places.config_path()
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    save_settings(Settings(ascii=True))
    assert path.is_symlink()
    assert "ascii = true" in real.read_text()


@pytest.mark.parametrize("size", SIZES)
async def test_a_change_holds_at_once_and_saving_keeps_it(size: tuple[int, int]) -> None:
    heard: list[Settings] = []
    view = view_of()
    app = ScreenApp(SettingsScreen(view, heard.append), view)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.press("right", "down", "space", "down", "right")
        await pilot.pause()
        assert heard[-1] == Settings(theme="dark", ascii=True, interval_s=2.0)
        assert load_settings() == Settings()
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert "Saved in" in text_of(app)
        assert load_settings() == heard[-1]


async def test_ascii_holds_at_once_for_the_form_too() -> None:
    app = whole_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await pilot.press("f2", "down")
        await pilot.pause()
        assert "╭" in text_of(app)
        await pilot.press("space")
        await pilot.pause()
        assert text_of(app).isascii()
        await pilot.press("space")
        await pilot.pause()
        assert "╭" in text_of(app)


async def test_a_broken_file_is_asked_about() -> None:
    path = write("theme = = dark")
    view = view_of()
    app = ScreenApp(SettingsScreen(view, lambda settings: None), view)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert "not valid TOML" in text_of(app)
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert "Overwrite it" in text_of(app)
        assert path.read_text() == "theme = = dark"
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "Saved in" in text_of(app)
    assert not read_settings().broken


async def test_a_key_that_changed_the_interval_elsewhere_is_shown() -> None:
    view = view_of()
    app = ScreenApp(SettingsScreen(view, lambda settings: None), view)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        app.give(replace(view, settings=Settings(interval_s=7.0)))
        await pilot.pause()
        assert "< 7 s >" in text_of(app)


async def test_the_help_of_every_field_fits_a_small_screen() -> None:
    app = ScreenApp(SettingsScreen(view_of(), lambda settings: None), view_of())
    async with app.run_test(size=(80, 24)) as pilot:
        form = app.screen.query_one(Form)
        for field in (field for field in form.fields if field.help):
            form.chosen = field.name
            form.redraw()
            await pilot.pause()
            assert field.help in text_of(app)


async def test_a_theme_that_no_color_hides_says_so() -> None:
    """Choosing another theme changed nothing, on a screen that says that a change takes effect at once."""
    app = whole_app(color=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f2")
        await pilot.pause()
        assert "NO_COLOR or --no-color is in effect" in text_of(app)
