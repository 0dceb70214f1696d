"""Sound: files, dictionaries, the command `banditmips pursue`, and a mix of real recordings."""

import csv
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import banditmips as bm
from banditmips.audio import gabor_notes, notes, plot_spectrograms, read_sound, recordings, write_sound
from banditmips.cli import app

soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed: pip install 'banditmips[audio]'")

RATE = 16_000
# Where the Debian package sonic-pi-samples puts its recordings.
RECORDINGS = Path(os.environ.get("BANDITMIPS_RECORDINGS", "/usr/share/sonic-pi/samples"))


def tone(frequency, seconds=2.0, phase=0.0, rate=RATE):
    return np.sin(2 * np.pi * frequency * np.arange(int(seconds * rate)) / rate + phase)


@pytest.fixture
def chord():
    """Return A4, C5 and E5 at phases of their own, with some noise: two seconds."""
    noise = 0.02 * np.random.default_rng(0).normal(size=2 * RATE)
    a4, c5, e5 = 440.0, 440.0 * 2 ** (3 / 12), 440.0 * 2 ** (7 / 12)
    return 0.4 * tone(a4, phase=0.7) + 0.3 * tone(c5, phase=2.0) + 0.2 * tone(e5, phase=4.0) + noise


@pytest.fixture
def folder(tmp_path):
    """Return a folder with three synthesised recordings of different length."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    rng = np.random.default_rng(1)
    fading = np.exp(-np.arange(RATE) / 1_500)
    write_sound(folder / "bell.wav", fading * tone(1_234.0, 1.0), RATE)
    soundfile.write(folder / "drum.flac", fading[:2_000] * rng.normal(size=2_000) * 0.3, RATE)
    soundfile.write(folder / "horn.ogg", 0.5 * tone(310.0, 1.0) + 0.2 * tone(620.0, 1.0), RATE)
    (folder / "readme.txt").write_text("not a sound")
    return folder


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "accuracy"), [("a.wav", 1e-4), ("a.flac", 1e-4), ("a.ogg", 0.1)])
def test_wav_flac_and_ogg_are_read(tmp_path, chord, name, accuracy):
    soundfile.write(tmp_path / name, chord, RATE)
    sound = read_sound(tmp_path / name)
    assert (sound.sample_rate, sound.n_channels, sound.seconds) == (RATE, 1, 2.0)
    np.testing.assert_allclose(sound.samples, chord, atol=accuracy)


def test_stereo_is_averaged(tmp_path, chord):
    soundfile.write(tmp_path / "a.wav", np.stack([chord, -0.5 * chord], axis=1), RATE, subtype="FLOAT")
    sound = read_sound(tmp_path / "a.wav")
    assert sound.n_channels == 2
    np.testing.assert_allclose(sound.samples, 0.25 * chord, atol=1e-6)


def test_loud_sound_is_written_without_clipping(tmp_path, chord):
    write_sound(tmp_path / "a.wav", 10 * chord, RATE)
    np.testing.assert_allclose(read_sound(tmp_path / "a.wav").samples, 10 * chord, rtol=1e-6, atol=1e-6)


def test_unreadable_files_are_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.wav"):
        read_sound(tmp_path / "nothing.wav")
    (tmp_path / "text.wav").write_text("this is no sound at all")
    with pytest.raises(ValueError, match=r"text\.wav cannot be read as WAV, FLAC or OGG"):
        read_sound(tmp_path / "text.wav")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), RATE)
    with pytest.raises(ValueError, match=r"empty\.wav holds no sound: it has 0 samples"):
        read_sound(tmp_path / "empty.wav")
    broken = tone(440.0)
    broken[7] = np.nan
    soundfile.write(tmp_path / "nan.wav", broken, RATE, subtype="FLOAT")
    with pytest.raises(ValueError, match=r"nan\.wav has nan at sample 7"):
        read_sound(tmp_path / "nan.wav")


def test_without_soundfile_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ImportError, match=r"pip install 'banditmips\[audio\]'"):
        read_sound(tmp_path / "a.wav")


# --- dictionaries --------------------------------------------------------------------------------------------------


def test_notes_are_found_whatever_their_phase(chord):
    dictionary = notes(chord.size, RATE)
    assert dictionary.names[0] == "A0"
    assert len(dictionary.names) == 88
    result = bm.matching_pursuit(dictionary.store, chord, n_nonzero=3, method="omp")
    assert [dictionary.names[i // 2] for i in result.indices[:, 0]] == ["A4", "C5", "E5"]
    np.testing.assert_allclose(result.amplitudes, [0.4, 0.3, 0.2], rtol=0.02)


def test_notes_above_half_the_sample_rate_are_left_out():
    assert notes(1_000, 1_000).names[-1] == "B4"
    with pytest.raises(ValueError, match="sample_rate is 50, too low"):
        notes(1_000, 50)


def test_gabor_notes_say_when(chord):
    silence = np.zeros(chord.size)
    silence[RATE // 2 : RATE] = tone(440.0, 0.5, 1.0)
    dictionary = gabor_notes(silence.size, RATE, hop=0.2)
    result = bm.matching_pursuit(dictionary.store, silence, n_nonzero=1)
    assert dictionary.names[result.indices[0, 0] // 2] == "A4 at 0.70 s"
    assert len(gabor_notes(100 * RATE, RATE).names) == 64 * 88
    assert len(gabor_notes(100, RATE).names) == 88
    with pytest.raises(ValueError, match="hop must be a positive number"):
        gabor_notes(chord.size, RATE, hop=0.0)
    with pytest.raises(ValueError, match="hop is too small: there would be 176,000 components"):
        gabor_notes(chord.size, RATE, hop=0.001)


def test_recordings_are_found_with_time_and_gain(folder):
    dictionary = recordings(folder, 3 * RATE, RATE, hop=0.5)
    assert len(dictionary.names) == 3 * 6
    bell, horn = (read_sound(folder / name).samples for name in ("bell.wav", "horn.ogg"))
    mix = 0.01 * np.random.default_rng(2).normal(size=3 * RATE)
    mix[RATE : 2 * RATE] += 0.8 * bell
    mix[int(2.5 * RATE) :] -= 0.6 * horn[: RATE // 2]  # cut off by the end
    result = bm.matching_pursuit(dictionary.store, mix, n_nonzero=2, method="omp")
    found = {dictionary.names[i]: c for i, c in zip(result.indices, result.coefficients, strict=True)}
    assert found == pytest.approx({"bell at 1.00 s": 0.8, "horn at 2.50 s": -0.6}, rel=0.02)


def test_recordings_of_another_sample_rate_are_refused(folder, tmp_path):
    write_sound(folder / "other.wav", tone(440.0, rate=11_025), 11_025)
    with pytest.raises(ValueError, match=r"other\.wav has 11,025 samples a second, but the sound .* has 16,000"):
        recordings(folder, RATE, RATE)
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="holds no WAV, FLAC or OGG file"):
        recordings(tmp_path / "none", RATE, RATE)
    with pytest.raises(FileNotFoundError, match="missing"):
        recordings(tmp_path / "missing", RATE, RATE)


@pytest.mark.skipif(
    not RECORDINGS.is_dir(),
    reason=f"no recordings in {RECORDINGS}: install Debian's sonic-pi-samples, or set BANDITMIPS_RECORDINGS",
)
def test_a_mix_of_real_recordings_is_taken_apart():
    rate, size = 44_100, 6 * 44_100
    gains = {
        "drum_cowbell at 1.75 s": 0.8,
        "misc_crow at 4.50 s": 0.9,
        "elec_chime at 2.25 s": -0.7,
        "guit_harmonics at 0.50 s": 1.0,
        "perc_bell at 0.00 s": 0.6,
    }
    mix = np.zeros(size)
    for name, gain in gains.items():
        stem, start = name.removesuffix(" s").split(" at ")
        begin = int(float(start) * rate)
        samples = read_sound(RECORDINGS / f"{stem}.flac").samples[: size - begin]
        mix[begin : begin + samples.size] += gain * samples
    dictionary = recordings(RECORDINGS, size, rate)
    assert len(dictionary.names) > 3_000
    for method in ("mp", "omp"):
        result = bm.matching_pursuit(dictionary.store, mix, n_nonzero=5, method=method)
        found = {dictionary.names[i]: c for i, c in zip(result.indices, result.coefficients, strict=True)}
        assert found == pytest.approx(gains, rel=0.01)
        assert result.residual_norms[-1] < 1e-3 * result.signal_norm
        assert result.n_multiplies_total < 0.02 * 5 * np.prod(dictionary.store.shape)


# --- the picture, and the command ----------------------------------------------------------------------------------


def test_the_picture_shows_signal_reconstruction_and_residual(chord):
    figure = plot_spectrograms(chord, 0.5 * chord, RATE, "half of it")
    signal, reconstruction, residual = figure.axes[:3]
    assert reconstruction.get_title(loc="left") == "reconstruction: 75.0 % of the energy"
    levels = [np.asarray(axes.collections[0].get_array()) for axes in (signal, reconstruction, residual)]
    assert levels[0].max() == pytest.approx(0.0)
    np.testing.assert_allclose(levels[1], levels[0] - 20 * np.log10(2), atol=1e-6)
    assert figure.get_suptitle() == "half of it"
    for few in (1, 5, 100):
        plot_spectrograms(np.ones(few), np.zeros(few), RATE, "short").canvas.draw()
    plot_spectrograms(np.zeros(RATE), np.zeros(RATE), RATE, "silence").canvas.draw()


def run(folder, *arguments):
    before = Path.cwd()
    os.chdir(folder)
    try:
        return CliRunner().invoke(app, ["pursue", *map(str, arguments)])
    finally:
        os.chdir(before)


def test_the_command_says_writes_and_draws(tmp_path, chord):
    soundfile.write(tmp_path / "chord.flac", np.stack([chord, chord], axis=1), RATE)
    done = run(tmp_path, "chord.flac", "-n", 3, "--method", "omp")
    assert done.exit_code == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["component"] for row in rows] == ["A4", "C5", "E5"]
    assert [float(row["strength"]) for row in rows] == pytest.approx([0.4, 0.3, 0.2], rel=0.02)
    assert 0.99 < float(rows[-1]["energy_explained"]) < 1.0
    assert "has 2 channels, which were averaged" in done.stderr
    rebuilt = read_sound(tmp_path / "chord-pursuit.wav")
    assert rebuilt.sample_rate == RATE
    np.testing.assert_allclose(rebuilt.samples, chord, atol=0.1)
    assert (tmp_path / "chord-pursuit.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("dictionary", ["gabor", "wavs"])
def test_the_command_knows_the_other_dictionaries(tmp_path, folder, dictionary):
    mix = np.zeros(RATE)
    mix[RATE // 2 :] = read_sound(folder / "bell.wav").samples[: RATE // 2]
    write_sound(tmp_path / "mix.wav", mix, RATE)
    name = f"wavs:{folder}" if dictionary == "wavs" else dictionary
    done = run(
        tmp_path, "mix.wav", "--dictionary", name, "-n", 2, "-o", "sum.wav", "--picture", "sum.svg", "--hop", 0.5
    )
    assert done.exit_code == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert rows[0]["component"] == ("bell at 0.50 s" if dictionary == "wavs" else "D#6 at 0.75 s")
    assert ("ended after 1 of 2: nothing is left of the sound" in done.stderr) == (dictionary == "wavs")
    assert (tmp_path / "sum.wav").is_file()
    assert "<svg" in (tmp_path / "sum.svg").read_text()


def test_silence_has_no_components(tmp_path):
    write_sound(tmp_path / "silence.wav", np.zeros(RATE), RATE)
    done = run(tmp_path, "silence.wav")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines() == ["component,strength,energy_explained,n_multiplies"]
    assert "ended after 0 of 10: nothing is left of the sound" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.wav"], "missing.wav: No such file or directory"),
        (["text.wav"], "text.wav cannot be read as WAV, FLAC or OGG"),
        (["a.wav", "-n", "89"], "-n must be at most 88, the number of components, got 89"),
        (["a.wav", "--dictionary", "piano"], "--dictionary must be notes, gabor or wavs:DIR, got 'piano'"),
        (["a.wav", "--dictionary", "wavs:"], "--dictionary must be notes, gabor or wavs:DIR"),
        (["a.wav", "--dictionary", "wavs:nowhere"], "nowhere: No such file or directory"),
        (["a.wav", "--hop", "0.5"], "--hop is for --dictionary gabor and wavs:DIR"),
        (["a.wav", "--dictionary", "gabor", "--hop", "-1"], "hop must be a positive number of seconds"),
        (["a.wav", "--method", "lars"], "method must be one of 'mp', 'omp', got 'lars'"),
        (["a.wav", "--delta", "2"], "delta must be in [0, 1), got 2.0"),
        (["a.wav", "-o", "a.wav"], "a.wav is the sound to decompose"),
        (["a.wav", "-o", "nowhere/b.wav"], "there is no folder nowhere"),
        (["a.wav", "--picture", "a.txt"], "--picture must end in .png, .svg or .pdf"),
    ],
)
def test_mistakes_are_one_line(tmp_path, arguments, message):
    write_sound(tmp_path / "a.wav", tone(440.0, 0.1), RATE)
    (tmp_path / "text.wav").write_text("this is no sound at all")
    before = (tmp_path / "a.wav").read_bytes()
    done = run(tmp_path, *arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "a.wav").read_bytes() == before
