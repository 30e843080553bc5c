"""The words of the speech set in ARPABET, and how each phone is written for espeak-ng (voice en-us)."""

PHONES = {
    "AA": "A:", "AE": "a", "AH": "V", "AO": "O:", "AW": "aU", "AY": "aI", "B": "b", "CH": "tS", "D": "d", "DH": "D",
    "EH": "E", "ER": "3:", "EY": "eI", "F": "f", "G": "g", "HH": "h", "IH": "I", "IY": "i:", "JH": "dZ", "K": "k",
    "L": "l", "M": "m", "N": "n", "NG": "N", "OW": "oU", "OY": "OI", "P": "p", "R": "r", "S": "s", "SH": "S", "T": "t",
    "TH": "T", "UH": "U", "UW": "u:", "V": "v", "W": "w", "Y": "j", "Z": "z", "ZH": "Z",
}  # fmt: skip

# "1" after a vowel marks the stressed syllable; it is not part of the phone's name in metadata.jsonl.
WORDS = {
    "a": "AH", "about": "AH B AW1 T", "and": "AE N D", "bath": "B AE1 TH", "bird": "B ER1 D", "book": "B UH1 K",
    "boy": "B OY1", "bread": "B R EH1 D", "bring": "B R IH1 NG", "cat": "K AE1 T", "chair": "CH EH1 R",
    "city": "S IH1 T IY", "dog": "D AO1 G", "five": "F AY1 V", "fish": "F IH1 SH", "girl": "G ER1 L",
    "good": "G UH1 D", "green": "G R IY1 N", "has": "HH AE1 Z", "he": "HH IY1", "house": "HH AW1 S",
    "in": "IH N", "is": "IH Z", "judge": "JH AH1 JH", "leave": "L IY1 V", "light": "L AY1 T", "live": "L IH1 V",
    "measure": "M EH1 ZH ER", "mother": "M AH1 DH ER", "my": "M AY", "near": "N IH1 R", "night": "N AY1 T",
    "old": "OW1 L D", "on": "AA N", "our": "AW R", "plays": "P L EY1 Z", "reads": "R IY1 D Z", "red": "R EH1 D",
    "river": "R IH1 V ER", "see": "S IY1", "sells": "S EH1 L Z", "she": "SH IY1", "ship": "SH IH1 P",
    "sing": "S IH1 NG", "small": "S M AO1 L", "the": "DH AH", "they": "DH EY1", "thin": "TH IH1 N",
    "think": "TH IH1 NG K", "three": "TH R IY1", "to": "T UW", "usually": "Y UW1 ZH UW AH L IY",
    "very": "V EH1 R IY", "vision": "V IH1 ZH AH N", "walks": "W AO1 K S", "warm": "W AO1 R M",
    "water": "W AO1 T ER", "we": "W IY1", "with": "W IH DH", "young": "Y AH1 NG", "zoo": "Z UW1",
}  # fmt: skip

# Phones that a learner may say instead; "" omits the phone.
SLIPS = {
    "TH": ("S", "T"), "DH": ("D", "Z"), "V": ("B", "F"), "W": ("V",), "R": ("L",), "L": ("R",), "Z": ("S",),
    "ZH": ("SH", "JH"), "SH": ("S",), "CH": ("SH",), "JH": ("CH",), "NG": ("N",), "IH": ("IY",), "IY": ("IH",),
    "AE": ("EH", "AA"), "UH": ("UW",), "ER": ("AA",), "AO": ("OW",), "D": ("", "T"), "T": ("",), "K": ("",),
}  # fmt: skip


def phones_of(word: str) -> list[str]:
    """Return the word's phones without stress marks."""
    return [phone.rstrip("1") for phone in WORDS[word].split()]


def stressed_at(word: str) -> int:
    """Return the index of the stressed phone, or -1 if no phone is stressed."""
    return next((i for i, phone in enumerate(WORDS[word].split()) if phone.endswith("1")), -1)
