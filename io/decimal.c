/* Decimal text to the nearest double without strtod, for the cells of large tables.
 *
 * A decimal of up to 19 significant digits is w * 10^q with w below 2^64. If w is at most 2^53 and |q| at most 22, both
 * factors are doubles, and one multiplication or division rounds once (Clinger 1990). Otherwise the leading 64 bits of
 * w * 5^q come from one or two products with a table of 5^q in 128 bits (Lemire 2021, "Number parsing at a gigabyte per
 * second"): they decide the rounding unless the product lies within the table's error of a tie, and then io__decimal
 * leaves the number to its caller. The result is the nearest double, ties to even, as strtod gives it. */
#include "io/csv.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { MAX_DIGITS = 19, MAX_EXACT_POWER = 22, LEAST_POWER = -64, MOST_POWER = 64 };

typedef struct power_of_five {
    uint64_t high, low;
} power_of_five;

static const double powers_of_ten[MAX_EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* 5^q for q = LEAST_POWER .. MOST_POWER, scaled by a power of two so that the top bit is set: cut off for q >= 0,
 * rounded up for q < 0. */
static const power_of_five powers_of_five[MOST_POWER - LEAST_POWER + 1] = {
    {0xa87fea27a539e9a5, 0x3f2398d747b36225}, {0xd29fe4b18e88640e, 0x8eec7f0d19a03aae},
    {0x83a3eeeef9153e89, 0x1953cf68300424ad}, {0xa48ceaaab75a8e2b, 0x5fa8c3423c052dd8},
    {0xcdb02555653131b6, 0x3792f412cb06794e}, {0x808e17555f3ebf11, 0xe2bbd88bbee40bd1},
    {0xa0b19d2ab70e6ed6, 0x5b6aceaeae9d0ec5}, {0xc8de047564d20a8b, 0xf245825a5a445276},
    {0xfb158592be068d2e, 0xeed6e2f0f0d56713}, {0x9ced737bb6c4183d, 0x55464dd69685606c},
    {0xc428d05aa4751e4c, 0xaa97e14c3c26b887}, {0xf53304714d9265df, 0xd53dd99f4b3066a9},
    {0x993fe2c6d07b7fab, 0xe546a8038efe402a}, {0xbf8fdb78849a5f96, 0xde98520472bdd034},
    {0xef73d256a5c0f77c, 0x963e66858f6d4441}, {0x95a8637627989aad, 0xdde7001379a44aa9},
    {0xbb127c53b17ec159, 0x5560c018580d5d53}, {0xe9d71b689dde71af, 0xaab8f01e6e10b4a7},
    {0x9226712162ab070d, 0xcab3961304ca70e9}, {0xb6b00d69bb55c8d1, 0x3d607b97c5fd0d23},
    {0xe45c10c42a2b3b05, 0x8cb89a7db77c506b}, {0x8eb98a7a9a5b04e3, 0x77f3608e92adb243},
    {0xb267ed1940f1c61c, 0x55f038b237591ed4}, {0xdf01e85f912e37a3, 0x6b6c46dec52f6689},
    {0x8b61313bbabce2c6, 0x2323ac4b3b3da016}, {0xae397d8aa96c1b77, 0xabec975e0a0d081b},
    {0xd9c7dced53c72255, 0x96e7bd358c904a22}, {0x881cea14545c7575, 0x7e50d64177da2e55},
    {0xaa242499697392d2, 0xdde50bd1d5d0b9ea}, {0xd4ad2dbfc3d07787, 0x955e4ec64b44e865},
    {0x84ec3c97da624ab4, 0xbd5af13bef0b113f}, {0xa6274bbdd0fadd61, 0xecb1ad8aeacdd58f},
    {0xcfb11ead453994ba, 0x67de18eda5814af3}, {0x81ceb32c4b43fcf4, 0x80eacf948770ced8},
    {0xa2425ff75e14fc31, 0xa1258379a94d028e}, {0xcad2f7f5359a3b3e, 0x096ee45813a04331},
    {0xfd87b5f28300ca0d, 0x8bca9d6e188853fd}, {0x9e74d1b791e07e48, 0x775ea264cf55347e},
    {0xc612062576589dda, 0x95364afe032a819e}, {0xf79687aed3eec551, 0x3a83ddbd83f52205},
    {0x9abe14cd44753b52, 0xc4926a9672793543}, {0xc16d9a0095928a27, 0x75b7053c0f178294},
    {0xf1c90080baf72cb1, 0x5324c68b12dd6339}, {0x971da05074da7bee, 0xd3f6fc16ebca5e04},
    {0xbce5086492111aea, 0x88f4bb1ca6bcf585}, {0xec1e4a7db69561a5, 0x2b31e9e3d06c32e6},
    {0x9392ee8e921d5d07, 0x3aff322e62439fd0}, {0xb877aa3236a4b449, 0x09befeb9fad487c3},
    {0xe69594bec44de15b, 0x4c2ebe687989a9b4}, {0x901d7cf73ab0acd9, 0x0f9d37014bf60a11},
    {0xb424dc35095cd80f, 0x538484c19ef38c95}, {0xe12e13424bb40e13, 0x2865a5f206b06fba},
    {0x8cbccc096f5088cb, 0xf93f87b7442e45d4}, {0xafebff0bcb24aafe, 0xf78f69a51539d749},
    {0xdbe6fecebdedd5be, 0xb573440e5a884d1c}, {0x89705f4136b4a597, 0x31680a88f8953031},
    {0xabcc77118461cefc, 0xfdc20d2b36ba7c3e}, {0xd6bf94d5e57a42bc, 0x3d32907604691b4d},
    {0x8637bd05af6c69b5, 0xa63f9a49c2c1b110}, {0xa7c5ac471b478423, 0x0fcf80dc33721d54},
    {0xd1b71758e219652b, 0xd3c36113404ea4a9}, {0x83126e978d4fdf3b, 0x645a1cac083126ea},
    {0xa3d70a3d70a3d70a, 0x3d70a3d70a3d70a4}, {0xcccccccccccccccc, 0xcccccccccccccccd},
    {0x8000000000000000, 0x0000000000000000}, {0xa000000000000000, 0x0000000000000000},
    {0xc800000000000000, 0x0000000000000000}, {0xfa00000000000000, 0x0000000000000000},
    {0x9c40000000000000, 0x0000000000000000}, {0xc350000000000000, 0x0000000000000000},
    {0xf424000000000000, 0x0000000000000000}, {0x9896800000000000, 0x0000000000000000},
    {0xbebc200000000000, 0x0000000000000000}, {0xee6b280000000000, 0x0000000000000000},
    {0x9502f90000000000, 0x0000000000000000}, {0xba43b74000000000, 0x0000000000000000},
    {0xe8d4a51000000000, 0x0000000000000000}, {0x9184e72a00000000, 0x0000000000000000},
    {0xb5e620f480000000, 0x0000000000000000}, {0xe35fa931a0000000, 0x0000000000000000},
    {0x8e1bc9bf04000000, 0x0000000000000000}, {0xb1a2bc2ec5000000, 0x0000000000000000},
    {0xde0b6b3a76400000, 0x0000000000000000}, {0x8ac7230489e80000, 0x0000000000000000},
    {0xad78ebc5ac620000, 0x0000000000000000}, {0xd8d726b7177a8000, 0x0000000000000000},
    {0x878678326eac9000, 0x0000000000000000}, {0xa968163f0a57b400, 0x0000000000000000},
    {0xd3c21bcecceda100, 0x0000000000000000}, {0x84595161401484a0, 0x0000000000000000},
    {0xa56fa5b99019a5c8, 0x0000000000000000}, {0xcecb8f27f4200f3a, 0x0000000000000000},
    {0x813f3978f8940984, 0x4000000000000000}, {0xa18f07d736b90be5, 0x5000000000000000},
    {0xc9f2c9cd04674ede, 0xa400000000000000}, {0xfc6f7c4045812296, 0x4d00000000000000},
    {0x9dc5ada82b70b59d, 0xf020000000000000}, {0xc5371912364ce305, 0x6c28000000000000},
    {0xf684df56c3e01bc6, 0xc732000000000000}, {0x9a130b963a6c115c, 0x3c7f400000000000},
    {0xc097ce7bc90715b3, 0x4b9f100000000000}, {0xf0bdc21abb48db20, 0x1e86d40000000000},
    {0x96769950b50d88f4, 0x1314448000000000}, {0xbc143fa4e250eb31, 0x17d955a000000000},
    {0xeb194f8e1ae525fd, 0x5dcfab0800000000}, {0x92efd1b8d0cf37be, 0x5aa1cae500000000},
    {0xb7abc627050305ad, 0xf14a3d9e40000000}, {0xe596b7b0c643c719, 0x6d9ccd05d0000000},
    {0x8f7e32ce7bea5c6f, 0xe4820023a2000000}, {0xb35dbf821ae4f38b, 0xdda2802c8a800000},
    {0xe0352f62a19e306e, 0xd50b2037ad200000}, {0x8c213d9da502de45, 0x4526f422cc340000},
    {0xaf298d050e4395d6, 0x9670b12b7f410000}, {0xdaf3f04651d47b4c, 0x3c0cdd765f114000},
    {0x88d8762bf324cd0f, 0xa5880a69fb6ac800}, {0xab0e93b6efee0053, 0x8eea0d047a457a00},
    {0xd5d238a4abe98068, 0x72a4904598d6d880}, {0x85a36366eb71f041, 0x47a6da2b7f864750},
    {0xa70c3c40a64e6c51, 0x999090b65f67d924}, {0xd0cf4b50cfe20765, 0xfff4b4e3f741cf6d},
    {0x82818f1281ed449f, 0xbff8f10e7a8921a4}, {0xa321f2d7226895c7, 0xaff72d52192b6a0d},
    {0xcbea6f8ceb02bb39, 0x9bf4f8a69f764490}, {0xfee50b7025c36a08, 0x02f236d04753d5b4},
    {0x9f4f2726179a2245, 0x01d762422c946590}, {0xc722f0ef9d80aad6, 0x424d3ad2b7b97ef5},
    {0xf8ebad2b84e0d58b, 0xd2e0898765a7deb2}, {0x9b934c3b330c8577, 0x63cc55f49f88eb2f},
    {0xc2781f49ffcfa6d5, 0x3cbf6b71c76b25fb},
};

typedef struct decimal {
    bool negative;
    uint64_t digits;
    int64_t power; /* of ten */
} decimal;

/* ---- text -------------------------------------------------------------------------------------------------------- */

static const char *take_digits(const char *at, const char *end, uint64_t *digits) {
    uint64_t sum = *digits;
    for (; at < end; at++) {
        unsigned digit = (unsigned)(unsigned char)*at - '0';
        if (digit > 9) break;
        sum = 10 * sum + digit;
    }
    *digits = sum;
    return at;
}

/* Whether the digits from `at` on, of which there are more than MAX_DIGITS, begin with enough zeros. */
static bool few_significant(const char *at, const char *stop) {
    while (at < stop && (*at == '0' || *at == '.')) at++;
    int64_t n = stop - at;
    return n <= MAX_DIGITS || (n == MAX_DIGITS + 1 && memchr(at, '.', (size_t)n) != NULL);
}

/* At an 'e': where the exponent ends, or NULL if none follows or it is out of all range. */
static const char *take_exponent(const char *at, const char *end, int64_t *power) {
    uint64_t exponent = 0;
    bool negative = false;
    at++;
    if (at < end && (*at == '+' || *at == '-')) negative = *at++ == '-';
    const char *start = at;
    at = take_digits(at, end, &exponent);
    if (at == start || at - start > 4) return NULL;
    *power += negative ? -(int64_t)exponent : (int64_t)exponent;
    return at;
}

static const char *scan(const char *at, const char *end, decimal *d) {
    if (at < end && (*at == '+' || *at == '-')) d->negative = *at++ == '-';
    const char *start = at;
    at = take_digits(at, end, &d->digits);
    int64_t written = at - start;
    if (at < end && *at == '.') {
        const char *fraction = ++at;
        at = take_digits(at, end, &d->digits);
        d->power = -(int64_t)(at - fraction);
        written += at - fraction;
    }
    if (written == 0 || (written > MAX_DIGITS && !few_significant(start, at))) return NULL;
    if (at < end && (*at == 'e' || *at == 'E')) at = take_exponent(at, end, &d->power);
    return at;
}

/* ---- rounding ---------------------------------------------------------------------------------------------------- */

typedef unsigned __int128 wide;

/* The leading 128 bits of w * 5^q; w has its top bit set. The second product refines the first where its lower bits
 * could carry into the bits that decide. */
static wide product(uint64_t w, const power_of_five *power) {
    const uint64_t undecided =
        UINT64_MAX >> 55; /* below the 53 bits of a double, its guard bit and the normalisation */
    wide first = (wide)w * power->high;
    if (((uint64_t)(first >> 64) & undecided) == undecided) first += ((wide)w * power->low) >> 64;
    return first;
}

/* digits * 10^power, both in range and digits not 0. false: too close to a tie, or not a normal double. */
static bool round_once(const decimal *d, double *value) {
    enum { BITS = 52, BIAS = 1023 };
    int shift = __builtin_clzll(d->digits);
    int64_t q = d->power;
    wide both = product(d->digits << shift, &powers_of_five[q - LEAST_POWER]);
    uint64_t high = (uint64_t)(both >> 64), low = (uint64_t)both;
    if (low == UINT64_MAX && (q < -27 || q > 55)) return false;
    int top = (int)(high >> 63), cut = top + 64 - BITS - 3;
    uint64_t mantissa = high >> cut; /* 54 bits: one more than a double has */
    int64_t scaled = 217706 * q;     /* 217706 / 2^16 = 1 + log2(5), for these q, rounded down */
    int64_t exponent = (scaled - (scaled < 0 ? 65535 : 0)) / 65536 + 63 + top - shift + BIAS;
    if (exponent <= 0 || exponent >= 2 * BIAS) return false;
    /* An exact tie goes to the even neighbour; only these powers can make one. */
    if (low <= 1 && q >= -4 && q <= 23 && (mantissa & 3) == 1 && mantissa << cut == high) mantissa &= ~1ull;
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa >= 2ull << BITS) mantissa = 1ull << BITS, exponent++;
    uint64_t bits = (mantissa & ~(1ull << BITS)) | (uint64_t)exponent << BITS;
    memcpy(value, &bits, sizeof bits);
    return true;
}

const char *io__decimal(const char *at, const char *end, double *value) {
    decimal d = {0};
    double magnitude = 0.0;
    const char *stop = scan(at, end, &d);
    if (stop == NULL) return NULL;
    if (d.digits <= 1ull << 53 && d.power >= -MAX_EXACT_POWER && d.power <= MAX_EXACT_POWER) {
        magnitude = (double)d.digits;
        magnitude = d.power < 0 ? magnitude / powers_of_ten[-d.power] : magnitude * powers_of_ten[d.power];
    } else if (d.digits > 0) {
        if (d.power < LEAST_POWER || d.power > MOST_POWER || !round_once(&d, &magnitude)) return NULL;
    }
    *value = d.negative ? -magnitude : magnitude;
    return stop;
}
