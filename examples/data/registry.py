"""The data sets that ``data get`` knows: official addresses, checksums, licences.

A SHA-256 is listed only if it was computed from the file itself; ``DataSet.checksums`` names its origin.
If it is ``None``, the first download records it in ``SHA256SUMS`` beside the files. The MD5 of an archive is one that
others publish.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from examples.data.errors import DownloadError
from minitransformer.errors import quoted

MAX_BYTES = 1 << 33
"""Largest unpacked file, about twice one side of the largest WMT corpus; anything larger is damaged or malicious."""


@dataclass(frozen=True)
class DataFile:
    """One text file of a data set (UTF-8, one sentence per line)."""

    name: str
    address: str
    """URL; several files may come from one archive."""
    sha256: str | None = None
    """Of the unpacked file; None: not published, recorded after the first download."""
    member: str = ""
    """Path inside the archive at ``address``, if that is an archive of several files."""


@dataclass(frozen=True)
class DataSet:
    """Files that belong together, with what a user should know before downloading them."""

    name: str
    contents: str
    licence: str
    checksums: str
    """Origin of the checksums."""
    size: str
    """Size of the download, or of the text on disk; "about" marks a figure of the organisers."""
    packing: str
    """How the files are packed at their addresses: a key of ``unpacking.UNPACKERS``."""
    files: tuple[DataFile, ...]
    max_bytes: int = MAX_BYTES
    """Largest unpacked file or member, several times as large as the real one."""
    archive_md5: Mapping[str, str] = field(default_factory=dict)
    """Address of an archive -> its MD5, checked before anything is unpacked; without an entry it is not known."""


def find(name: str) -> DataSet:
    """The data set with this name; DownloadError, which lists the known names, if there is none."""
    for data_set in DATA_SETS:
        if data_set.name == ALIASES.get(name, name):
            return data_set
    known = ", ".join(data_set.name for data_set in DATA_SETS)
    raise DownloadError(f"the name must be one of {known}, got {quoted(name)}")


# The address contains a commit hash, so the files cannot change.
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
MULTI30K_SHA256 = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "test_2017_flickr.en": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
    "test_2017_flickr.de": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
}

SUBWORD_NMT = (
    "https://raw.githubusercontent.com/rsennrich/subword-nmt/92d6139d07d30e12735a0af9e7f7f925ebe62c54"
    "/subword_nmt/tests/data"
)
SUBWORD_NMT_SHA256 = {
    "corpus.en": "617f603a49eeb8a20de9d922d11a5d70e1d362327b9e91718bea2cdcdf9816ff",
    "bpe.ref": "099a13f9130ce79b66b13d36608ac48aab72fe86a4e432c2ac1ac3de24db784f",
    "corpus.bpe.ref.en": "ba448a50d800134e57112e59cbab98a48cb387d5ac983815d94cb68f675cf0df",
}

CRAFT = (
    "https://raw.githubusercontent.com/UCDenver-ccp/CRAFT/2abe82b8bb8089448b84937d5f61d8c218011322"
    "/structural-annotation/treebank/penn"
)
CRAFT_ARTICLES = """
11319941 11532192 11597317 11604102 11897010 12079497 12546709 12585968 12925238 14609438 14611657 14624252
14675480 14691534 14723793 14737183 15005800 15018652 15040800 15061865 15070402 15207008 15238161 15314655
15314659 15320950 15328533 15328538 15345036 15492776 15550985 15560850 15588329 15615595 15619330 15630473
15676071 15760270 15784609 15819996 15836427 15850489 15876356 15882093 15917436 15921521 15938754 16026622
16027110 16098226 16103912 16109169 16110338 16121255 16121256 16216087 16221973 16255782 16279840 16362077
16410827 16433929 16462940 16504143 16504174 16507151 16517939 16539743 16579849 16611361 16628246 16670015
16700629 16787536 16800892 16870721 16968134 17002498 17020410 17022820 17029558 17069463 17078885 17083276
17194222 17201918 17206865 17244351 17425782 17447844 17465682 17503968 17565376 17590087 17608565 17677002
17696610
""".split()
CRAFT_PARTS = {5: "dev", 11: "test"}
"""Place of an article in its line above -> part of the data set; all others are train."""

WMT13, WMT14 = "https://statmt.org/wmt13/test.tgz", "https://statmt.org/wmt14/test-full.tgz"
NEWSTEST_MD5 = {WMT13: "48eca5d02f637af44e85186847141f67", WMT14: "a8cd784e006feb32ac6f3d9ec7eb389a"}
"""As sacreBLEU publishes them for its test sets wmt13 and wmt14/full."""
WMT14_TRAINING = {
    "europarl-v7": ("https://statmt.org/wmt13/training-parallel-europarl-v7.tgz", "training/europarl-v7.{}-en.{}"),
    "commoncrawl": ("https://statmt.org/wmt13/training-parallel-commoncrawl.tgz", "commoncrawl.{}-en.{}"),
    "news-commentary-v9": (
        "https://statmt.org/wmt14/training-parallel-nc-v9.tgz",
        "training/news-commentary-v9.{}-en.{}",
    ),
    "undoc-2000": ("https://statmt.org/wmt13/training-parallel-un.tgz", "un/undoc.2000.{}-en.{}"),
    "giga-fren-2": ("https://statmt.org/wmt10/training-giga-fren.tar", "giga-fren.release2.fixed.{1}.gz"),
}
"""Corpus -> (address, member for a language and a side)."""
IWSLT14 = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
TATOEBA = "https://www.manythings.org/anki"
TATOEBA_LICENCE = (
    "CC-BY 2.0 (France). Sentences of tatoeba.org, paired by www.manythings.org/anki: credit both. "
    "Terms: https://tatoeba.org/terms_of_use"
)
ALIASES = {"tatoeba": "tatoeba_en_de"}
RECORDED = "none published: recorded in SHA256SUMS after the first download"


def _tatoeba(language: str, archive: str, size: str, disk: str) -> DataSet:
    names = [f"{part}.{side}" for part in ("train", "val", "test") for side in ("en", language)]
    return DataSet(
        name=f"tatoeba_en_{language}",
        contents=f"short everyday sentences en-{language}, {size}, split by English sentence into train, val, test",
        licence=TATOEBA_LICENCE,
        checksums=f"{RECORDED} (the archive grows with the site)",
        size=disk,
        packing="pairs",
        files=tuple(DataFile(name, f"{TATOEBA}/{archive}") for name in names),
        max_bytes=1 << 27,
    )


def _wmt14(language: str, corpora: tuple[str, ...], pairs: str, size: str) -> DataSet:
    return DataSet(
        name=f"wmt14-en-{language}",
        contents=f"the training text of WMT 2014 en-{language}, {pairs} pairs, a file for each corpus and side "
        "[sec. 5.1]; `data get newstest` downloads the development and test sets",
        licence="None stated in the archives. The organisers' page, with the terms of each corpus: "
        "https://statmt.org/wmt14/translation-task.html",
        checksums=RECORDED,
        size=f"{size}; on disk the text, and the archives of one corpus at a time",
        packing="tar",
        files=tuple(
            DataFile(
                f"{corpus}.{side}", WMT14_TRAINING[corpus][0], member=WMT14_TRAINING[corpus][1].format(language, side)
            )
            for corpus in corpora
            for side in ("en", language)
        ),
    )


DATA_SETS = (
    DataSet(
        name="multi30k",
        contents="image captions en-de and en-fr, raw: train 29,000, val 1,014, test_2016_flickr 1,000 sentences; "
        "test_2017_flickr 1,000, en-de only [Elliott et al. 2016, 2017]",
        licence="No licence file. The repository (https://github.com/multi30k/dataset) says that the captioned "
        "images, which are not downloaded, are for non-commercial research and education, by Flickr's terms of use.",
        checksums="SHA-256, computed from the unpacked files of that repository at commit a3d2e0d",
        size="8 MB of text",
        packing="gz",
        files=tuple(DataFile(name, f"{MULTI30K}/{name}.gz", sha256) for name, sha256 in MULTI30K_SHA256.items()),
        max_bytes=1 << 24,
    ),
    DataSet(
        name="newstest",
        contents="newstest2013 (3,000 sentences) and newstest2014 (3,003), en-de and en-fr: the paper's dev and test "
        "sets [sec. 6.1]",
        licence="None stated in the archives. The organisers' page: https://statmt.org/wmt14/translation-task.html",
        checksums=f"of the archives the MD5s of sacreBLEU; of the files {RECORDED}",
        archive_md5=NEWSTEST_MD5,
        size="3 MB of text",
        packing="sgm",
        files=(
            DataFile("newstest2013.en-de.en", WMT13, member="test/newstest2013-src.en.sgm"),
            DataFile("newstest2013.en-de.de", WMT13, member="test/newstest2013-src.de.sgm"),
            DataFile("newstest2013.en-fr.en", WMT13, member="test/newstest2013-src.en.sgm"),
            DataFile("newstest2013.en-fr.fr", WMT13, member="test/newstest2013-src.fr.sgm"),
            DataFile("newstest2014.en-de.en", WMT14, member="test-full/newstest2014-deen-src.en.sgm"),
            DataFile("newstest2014.en-de.de", WMT14, member="test-full/newstest2014-deen-ref.de.sgm"),
            DataFile("newstest2014.en-fr.en", WMT14, member="test-full/newstest2014-fren-src.en.sgm"),
            DataFile("newstest2014.en-fr.fr", WMT14, member="test-full/newstest2014-fren-ref.fr.sgm"),
        ),
        max_bytes=1 << 24,
    ),
    _tatoeba("de", "deu-eng.zip", "more than 160,000 pairs", "more than 12 MB of text"),
    _tatoeba("ko", "kor-eng.zip", "more than 5,000 pairs", "more than 0.4 MB of text"),
    _wmt14("de", ("europarl-v7", "commoncrawl", "news-commentary-v9"), "about 4.5 million", "about 1.6 GB to download"),
    _wmt14(
        "fr",
        ("europarl-v7", "commoncrawl", "undoc-2000", "news-commentary-v9", "giga-fren-2"),
        "about 36 million (40 million before cleaning)",
        "about 6.2 GB to download",
    ),
    DataSet(
        name="iwslt14",
        contents="TED talks de-en, about 160,000 pairs, split as usual: every 23rd training pair is val; test is "
        "dev2010, dev2012 and tst2010 to tst2012; raw and cased, whereas many papers lower-case and clean it first",
        licence="TED's talks: CC BY-NC-ND, non-commercial. Organisers' page: https://wit3.fbk.eu/2014-01; "
        "the address is the copy that fairseq uses",
        checksums=RECORDED,
        size="about 20 MB to download",
        packing="ted",
        files=tuple(DataFile(f"{part}.{side}", IWSLT14) for part in ("train", "val", "test") for side in ("en", "de")),
        max_bytes=1 << 27,
    ),
    DataSet(
        name="craft_trees",
        contents="trees of 97 biomedical articles (CRAFT) in the bracketed form of the Penn Treebank, split by "
        "article: train 25,491, dev 2,416, test 2,923 trees",
        licence="CC-BY 3.0. CRAFT Corpus, University of Colorado (https://github.com/UCDenver-ccp/CRAFT)",
        checksums="none published: recorded in SHA256SUMS after the first download; the address has a commit hash",
        size="13 MB of text",
        packing="plain",
        files=tuple(
            DataFile(f"{CRAFT_PARTS.get(number % 12, 'train')}.{article}.mrg", f"{CRAFT}/{article}.tree")
            for number, article in enumerate(CRAFT_ARTICLES)
        ),
        max_bytes=1 << 24,
    ),
    DataSet(
        name="bpe_reference",
        contents="1,015 sentences with the 1,000 merges and the segmentation of subword-nmt: a reference for BPE",
        licence="MIT, Copyright (c) 2015 University of Edinburgh (https://github.com/rsennrich/subword-nmt)",
        checksums="SHA-256, computed from the files of that repository at commit 92d6139",
        size="0.3 MB",
        packing="plain",
        files=tuple(DataFile(name, f"{SUBWORD_NMT}/{name}", sha256) for name, sha256 in SUBWORD_NMT_SHA256.items()),
        max_bytes=1 << 24,
    ),
)
