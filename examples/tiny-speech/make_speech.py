"""Makes the speech set: clips/*.flac and metadata.jsonl, the same bytes each time for the same espeak-ng.

    python examples/tiny-speech/make_speech.py        # needs espeak-ng, numpy, soundfile

The clips are synthetic. Their phones are known because the synthesiser got them as input; the scores are computed from
the phones by the formulas below. They have the same names and the same 0-10 scale as the human scores of
speechocean762.
"""

import io
import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from lexicon import PHONES, SLIPS, phones_of, stressed_at

HERE = Path(__file__).parent
RATE = 16_000
SEED = 762
SENTENCES = (
    "she sells red fish", "we live near the river", "they think about the water", "the young boy reads a book",
    "my mother has a green chair", "he walks to the old house", "the girl plays with the small dog",
    "they sing to the bird", "bring the warm bread", "our city is very old", "the cat is on the ship",
    "five thin fish leave", "a good judge", "we usually measure the light", "the zoo is near our house",
    "she has good vision in the night",
)  # fmt: skip
SINGLE = ("think", "river", "vision", "measure", "bath", "judge", "young", "leave", "ship", "water")
VOICES = ("en-us", "en-us+m3", "en-us+f2", "en-us+m5", "en-us+f4")


@dataclass(frozen=True)
class Delivery:
    """How an utterance is spoken.

    `words_per_minute` and `gap` (10 ms each) set fluency, `pitch_range` (percent) sets prosody.
    """

    voice: str
    words_per_minute: int = 165
    gap: int = 0
    pitch_range: int = 100


@dataclass(frozen=True)
class Utterance:
    """The content of one clip: its words, and the phones to speak for each."""

    name: str
    words: tuple[str, ...]
    said: tuple[tuple[str, ...], ...]
    delivery: Delivery
    split: str


def main() -> None:
    (HERE / "clips").mkdir(exist_ok=True)
    rows = []
    for utterance in utterances():
        path = HERE / "clips" / f"{utterance.name}.flac"
        soundfile.write(path, speak(utterance), RATE, subtype="PCM_16")
        rows.append(describe(utterance, path.relative_to(HERE).as_posix()))
    (HERE / "metadata.jsonl").write_text("".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))


def utterances() -> list[Utterance]:
    """Yield each text once without errors and at least once with errors; every fourth clip is in the test split."""
    chance = random.Random(SEED)
    made = []
    for number, text in enumerate((*SINGLE, *SENTENCES)):
        words = tuple(text.split())
        wanted = tuple(tuple(phones_of(word)) for word in words)
        variants = 1 if len(words) == 1 else 2 if number % 3 == 0 else 1
        voice = VOICES[number % len(VOICES)]
        split = "test" if number % 4 == 3 else "train"
        made.append(Utterance(f"{number:02}-good", words, wanted, Delivery(voice), split))
        for variant in range(variants):
            slips = 1 if len(words) == 1 else 2 + 2 * variant
            delivery = Delivery(
                VOICES[(number + variant + 1) % len(VOICES)],
                words_per_minute=chance.choice((95, 115, 135)),
                gap=chance.choice((0, 4, 10)),
                pitch_range=chance.choice((0, 40, 100)),
            )
            made.append(
                Utterance(f"{number:02}-slip{variant + 1}", words, slip(wanted, slips, chance), delivery, split)
            )
    return made


def slip(wanted: tuple[tuple[str, ...], ...], count: int, chance: random.Random) -> tuple[tuple[str, ...], ...]:
    """Return `wanted` with `count` phones replaced or omitted; an omitted phone is ""."""
    said = [list(word) for word in wanted]
    places = [(w, p) for w, word in enumerate(wanted) for p, phone in enumerate(word) if phone in SLIPS]
    for w, p in chance.sample(places, min(count, len(places))):
        said[w][p] = chance.choice(SLIPS[wanted[w][p]])
    return tuple(tuple(word) for word in said)


def speak(utterance: Utterance) -> np.ndarray:
    """Return the clip as mono samples in [-1, 1] at 16 kHz."""
    pairs = zip(utterance.words, utterance.said, strict=True)
    text = f"[[{' '.join(mnemonics(word, said) for word, said in pairs)}]]"
    delivery = utterance.delivery
    markup = f'<speak><prosody range="{delivery.pitch_range}%"> {text} </prosody> </speak>'
    command = ["espeak-ng", "-m", "-z", "-v", delivery.voice, "-s", str(delivery.words_per_minute)]
    command += ["-g", str(delivery.gap), "--stdout", markup]
    wave = subprocess.run(command, capture_output=True, check=True).stdout
    samples, rate = soundfile.read(io.BytesIO(wave), dtype="float64")
    return without_silence(resample(samples, rate))


def without_silence(samples: np.ndarray) -> np.ndarray:
    """Return `samples` from 0.1 s before the first sound to 0.1 s after the last."""
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return samples[max(0, loud[0] - RATE // 10) : loud[-1] + RATE // 10]


def mnemonics(word: str, said: tuple[str, ...]) -> str:
    """Return the phones in espeak-ng's notation, with the stress mark."""
    stress = stressed_at(word)
    return "".join(("'" if i == stress else "") + PHONES[phone] for i, phone in enumerate(said) if phone)


def resample(samples: np.ndarray, rate: int) -> np.ndarray:
    """Return `samples` at 16 kHz, without the spectrum above 8 kHz."""
    count = round(len(samples) * RATE / rate)
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return np.clip(np.fft.irfft(spectrum, count) * (count / len(samples)), -1.0, 1.0)


def describe(utterance: Utterance, file: str) -> dict[str, object]:
    """Return the clip's row of metadata.jsonl."""
    expected = [phone for word in utterance.words for phone in phones_of(word)]
    said = [phone for word in utterance.said for phone in word]
    errors = [
        {"index": i, "expected": want, "said": got}
        for i, (want, got) in enumerate(zip(expected, said, strict=True))
        if want != got
    ]
    return {
        "file": file,
        "text": " ".join(utterance.words),
        "phones_expected": expected,
        "phones_said": [phone for phone in said if phone],
        "phones_correct": [int(want == got) for want, got in zip(expected, said, strict=True)],
        "errors": errors,
        "scores": score(utterance.delivery, len(errors), len(expected)),
        "speaker": utterance.delivery.voice,
        "split": utterance.split,
    }


def score(delivery: Delivery, errors: int, phones: int) -> dict[str, int]:
    """Return scores from 0 to 10: accuracy by share of correct phones, fluency by pace and gaps, prosody by pitch."""
    accuracy = round(10 * max(0.0, 1 - 2.5 * errors / phones))
    fluency = 10 - round((165 - delivery.words_per_minute) / 15) - delivery.gap // 4
    prosodic = 10 - round((100 - delivery.pitch_range) / 17)
    total = round(0.5 * accuracy + 0.3 * fluency + 0.2 * prosodic)
    return {"accuracy": accuracy, "fluency": max(0, fluency), "prosodic": prosodic, "total": max(0, total)}


if __name__ == "__main__":
    main()
