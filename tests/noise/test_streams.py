import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from reldp.errors import InputError, RunError
from reldp.noise.streams import KEY_BYTES, Stream, Streams, new_key

KEY = bytes(range(32))


def test_keystream_is_aes_ctr_as_nist_published_it():
    # NIST SP 800-38A, F.5.5 CTR-AES256.Encrypt: keystream = plaintext XOR ciphertext.
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    plain = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    cipher = "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    expected = int(plain, 16) ^ int(cipher, 16)
    assert Stream(key, counter).bytes(32) == expected.to_bytes(32, "big")


def test_derivation_is_the_documented_one():
    address = (3).to_bytes(8, "big") + (5).to_bytes(8, "big") + b"purpose"
    key = hashlib.blake2b(address, digest_size=32, key=KEY, person=b"reldp stream 1").digest()
    counter = (9).to_bytes(8, "big") + bytes(8)
    ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = [(int.from_bytes(counter, "big") + i).to_bytes(16, "big") for i in range(4)]
    expected = b"".join(ecb.update(block) for block in blocks)
    assert Streams(KEY).stream("purpose", 3, 5, 9).bytes(64) == expected


def test_every_part_of_the_address_changes_every_bit_stream():
    addresses = [
        (purpose, branch, step, lane)
        for purpose in ("a", "b", "aa", "noise", "noise/secure", "sampling/positives")
        for branch in (0, 1, 256, 2**64 - 1)
        for step in (0, 1, 256, 2**64 - 1)
        for lane in (0, 1, 256, 2**64 - 1)
    ]
    starts = {Streams(KEY).stream(*address).bytes(32) for address in addresses}
    assert len(starts) == len(addresses)
    other_key = {Streams(bytes(32)).stream(*address).bytes(32) for address in addresses}
    assert not starts & other_key


def test_streams_bound_to_a_content_are_their_own():
    streams = Streams(KEY)
    one, again, other = (streams.bound_to(content) for content in (b"1", memoryview(b"1"), b"2"))
    drawn = [found.stream("test", 0, 0).bytes(64) for found in (streams, one, again, other)]
    assert drawn[1] == drawn[2]
    assert len(set(drawn)) == 3
    assert Streams(bytes(32)).bound_to(b"1").stream("test", 0, 0).bytes(64) not in drawn


def test_a_purpose_cannot_imitate_another_address():
    # With the numbers behind the purpose, ("x" + zeros, ...) could equal ("x", ...).
    streams = Streams(KEY)
    tail = (7).to_bytes(8, "big").decode()
    assert streams.stream("x", 0, 7).bytes(16) != streams.stream("x" + tail, 0, 0).bytes(16)


def test_same_address_gives_the_same_bits_however_they_are_read():
    whole = Streams(KEY).stream("p", 1, 2).bytes(3_000_000)  # longer than one internal piece
    stream = Streams(KEY).stream("p", 1, 2)
    parts = [stream.bytes(n) for n in (0, 1, 15, 17, 2_000_000)]
    assert b"".join(parts) == whole[:2_000_033]
    words = Streams(KEY).stream("p", 1, 2).uint64(1000)
    assert words.tobytes() == whole[:8000]


def test_uniform_is_the_upper_53_bits():
    words = Streams(KEY).stream("u", 0, 0).uint64(1000)
    uniform = Streams(KEY).stream("u", 0, 0).uniform(1000)
    assert uniform.dtype == np.float64
    assert uniform.tolist() == [(word >> 11) / 2**53 for word in words.tolist()]


@pytest.mark.parametrize("high", [1, 2, 3, 10, 2**31 + 1, 2**62 + 1, 2**63])
def test_integers_stay_in_range_and_equal_a_plain_rejection_loop(high):
    drawn = Streams(KEY).stream("i", 0, high % 97).integers(high, 200)
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert int(drawn.max()) < high
    # The oracle keeps the places of rejected words and fills them from the words that follow.
    words = iter(Streams(KEY).stream("i", 0, high % 97).uint64(2000).tolist())
    limit = 2**64 - 2**64 % high
    slots = [next(words) for _ in range(200)]
    while bad := [i for i, word in enumerate(slots) if word >= limit]:
        for i in bad:
            slots[i] = next(words)
    assert drawn.tolist() == [word % high for word in slots]


def test_integers_have_no_modulo_bias_where_a_plain_modulo_has():
    # high = 3 * 2^62: a plain modulo gives the lowest third twice the weight of the others.
    # Chi-square over the three thirds, false-alarm rate 1e-6.
    high, n = 3 * 2**61, 6000
    stream = Streams(KEY).stream("bias", 0, 0)
    thirds = np.bincount(stream.integers(high, n) // 2**61, minlength=3)
    assert stats.chisquare(thirds).pvalue > 1e-6
    plain = (stream.uint64(n) % np.uint64(high)) // np.uint64(2**61)
    control = np.bincount(plain.astype(np.int64), minlength=3)
    assert stats.chisquare(control).pvalue < 1e-6


def test_bits_are_balanced_and_steps_are_uncorrelated():
    # 64 bit positions and 63 step pairs, two-sided normal tests at 1e-8 each: false-alarm rate
    # 2e-6.
    bound = stats.norm.isf(0.5e-8)
    words = np.stack([Streams(KEY).stream("bits", 0, step).uint64(2000) for step in range(64)])
    bits = (words[..., None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).astype(float)
    balance = (bits.mean((0, 1)) - 0.5) / (0.5 / np.sqrt(words.size))
    assert np.abs(balance).max() < bound
    signs = 2 * bits.reshape(64, -1) - 1  # (step, bits)
    correlation = (signs[1:] * signs[:-1]).sum(1) / np.sqrt(signs.shape[1])
    assert np.abs(correlation).max() < bound
    repeated = (signs[0] * signs[0]).sum() / np.sqrt(signs.shape[1])
    assert repeated > bound  # a step that repeats the last one's coins


def test_new_keys_differ_and_no_text_shows_a_key():
    assert len({new_key() for _ in range(10)}) == 10
    assert all(len(new_key()) == KEY_BYTES for _ in range(3))
    streams = Streams(b"secret key of thirty-two bytes!!")
    assert "secret key" not in repr(streams) + str(streams)


@pytest.mark.parametrize("key", [b"", b"short", bytes(33), "x" * 32, None, 7])
def test_bad_keys_are_refused_without_being_shown(key):
    with pytest.raises(InputError, match="`key` must be 32 bytes") as error:
        Streams(key)
    assert "short" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("purpose", ("", 0, 0)),
        ("purpose", (None, 0, 0)),
        ("branch", ("p", -1, 0)),
        ("branch", ("p", 1.0, 0)),
        ("step", ("p", 0, -1)),
        ("step", ("p", 0, 2**64)),
        ("step", ("p", 0, True)),
        ("lane", ("p", 0, 0, -1)),
    ],
)
def test_bad_addresses_are_refused(name, arguments):
    with pytest.raises(InputError, match=f"`{name}`"):
        Streams(KEY).stream(*arguments)


def test_bad_sizes_are_refused():
    stream = Streams(KEY).stream("p", 0, 0)
    for call in (stream.bytes, stream.uint64, stream.uniform):
        with pytest.raises(InputError, match="`n`"):
            call(-1)
    for high in (0, -1, 2**63 + 1, 1.5):
        with pytest.raises(InputError, match="`high`"):
            stream.integers(high, 1)
    assert stream.integers(5, 0).shape == (0,)


def test_a_step_is_claimed_once():
    streams = Streams(bytes(32))
    streams.claim(0, 3)
    streams.claim(1, 3)
    streams.claim(0, np.int64(4))
    with pytest.raises(RunError, match="must run once, got step 4 of branch 0 again"):
        streams.claim(0, 4)
    assert streams.num_claimed == 3
