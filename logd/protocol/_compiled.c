/* The loops over the entries of a message set, and the checksums, compiled.
 *
 * The twin of logd/protocol/loops/python.py, result for result and error for error. A loop here handles sound entries of
 * the common kinds. Whatever else it meets (damage, rare fields, arguments of other types) goes to the same function of
 * the Python twin, which has every error text: so a rule is written twice only where it is checked for each message, and
 * a doubt here costs time, never correctness. logd.protocol.loops.compiled hands in the twin and the classes of results
 * (set_up). The formats are drawn in logd/protocol/entry.py, batch_layout.py and loops/batches.py.
 *
 * No byte is read before its index was compared with the buffer's size. Indexes and positions are int64_t: entries have
 * lengths of 32 bits, and positions beyond 2^61 go to the twin, so that no sum here overflows.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Messages are allocated as the tuples that they are, which relies on the layout of a tuple up to here. */
#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "the compiled loops are known to fit Python 3.11 to 3.13; others use the loops in Python"
#endif

/* The CRC-32 of this file, defined by setup.py: logd.protocol.implementation compares it with the file, so that an
 * extension that was not built again after an update is not used with the new code around it. */
#ifndef SOURCE_CRC
#error "build with setup.py, which defines SOURCE_CRC"
#endif

/* ---- What set_up hands in ---- */

enum {
    CLASS_MESSAGE,
    CLASS_CHECKED,
    CLASS_SCANNED,
    CLASS_DECODED,
    CLASS_JOINED_FRAMES,
    CLASS_COLUMNS,
    CLASS_BINARY_COLUMN,
    CLASS_RECORDS,
    CLASS_BATCH_RUN,
    CLASS_MADE_RECORDS,
    CLASS_OPEN_BATCH,
    CLASS_MESSAGE_SUMMARY,
    CORRUPT_MESSAGE,
    WRAPPER_TOO_LARGE,
    DEFAULT_CHECKSUMS,
    DEFAULT_BATCH_BYTES,
    DEFAULT_DECOMPRESSED,
    DEFAULT_MESSAGES,
    MAY_BE_WRAPPER,
    OPEN_BATCH,
    DECODE_REST,
    TWIN_CHECK_SET,
    TWIN_COLUMNS_OF_SET,
    TWIN_DECODE_SET,
    TWIN_ENCODE_PAYLOAD_RECORDS,
    TWIN_ENCODE_PAYLOAD_FRAMES,
    TWIN_ENCODE_PAYLOADS,
    TWIN_ENCODE_RECORDS,
    TWIN_ENCODE_SET,
    TWIN_ENDS_OF_SET,
    TWIN_FIND_BATCHES,
    TWIN_HEADS_OF_SET,
    TWIN_JOIN_FRAMES,
    TWIN_PAYLOAD_SIZES,
    TWIN_RECORDS_OF_SET,
    TWIN_SCAN_SET,
    TWIN_SLICE_END,
    TWIN_SUMMARIZE_MESSAGES,
    TWIN_WIRE_OF_RUN,
    PARTS
};

static const char *const PART_NAMES[PARTS] = {
    [CLASS_MESSAGE] = "Message",
    [CLASS_CHECKED] = "Checked",
    [CLASS_SCANNED] = "Scanned",
    [CLASS_DECODED] = "Decoded",
    [CLASS_JOINED_FRAMES] = "JoinedFrames",
    [CLASS_COLUMNS] = "Columns",
    [CLASS_BINARY_COLUMN] = "BinaryColumn",
    [CLASS_RECORDS] = "Records",
    [CLASS_BATCH_RUN] = "BatchRun",
    [CLASS_MADE_RECORDS] = "MadeRecords",
    [CLASS_OPEN_BATCH] = "OpenBatch",
    [CLASS_MESSAGE_SUMMARY] = "MessageSummary",
    [CORRUPT_MESSAGE] = "CorruptMessage",
    [WRAPPER_TOO_LARGE] = "WrapperTooLarge",
    [DEFAULT_CHECKSUMS] = "CHECKSUMS",
    [DEFAULT_BATCH_BYTES] = "DEFAULT_BATCH_BYTES",
    [DEFAULT_DECOMPRESSED] = "DEFAULT_MAX_DECOMPRESSED",
    [DEFAULT_MESSAGES] = "DEFAULT_MAX_DECOMPRESSED_MESSAGES",
    [MAY_BE_WRAPPER] = "may_be_wrapper",
    [OPEN_BATCH] = "open_batch",
    [DECODE_REST] = "decode_rest",
    [TWIN_CHECK_SET] = "check_set",
    [TWIN_COLUMNS_OF_SET] = "columns_of_set",
    [TWIN_DECODE_SET] = "decode_set",
    [TWIN_ENCODE_PAYLOAD_RECORDS] = "encode_payload_records",
    [TWIN_ENCODE_PAYLOAD_FRAMES] = "encode_payload_frames",
    [TWIN_ENCODE_PAYLOADS] = "encode_payloads",
    [TWIN_ENCODE_RECORDS] = "encode_records",
    [TWIN_ENCODE_SET] = "encode_set",
    [TWIN_ENDS_OF_SET] = "ends_of_set",
    [TWIN_FIND_BATCHES] = "find_batches",
    [TWIN_HEADS_OF_SET] = "heads_of_set",
    [TWIN_JOIN_FRAMES] = "join_frames",
    [TWIN_PAYLOAD_SIZES] = "payload_sizes",
    [TWIN_RECORDS_OF_SET] = "records_of_set",
    [TWIN_SCAN_SET] = "scan_set",
    [TWIN_SLICE_END] = "slice_end",
    [TWIN_SUMMARIZE_MESSAGES] = "summarize_messages",
    [TWIN_WIRE_OF_RUN] = "wire_of_run",
};

struct state {
    bool ready;
    PyObject *no_headers; /* the empty tuple */
    PyObject *parts[PARTS];
};

static struct state *
state_of(PyObject *module)
{
    struct state *state = PyModule_GetState(module);
    if (!state->ready) {
        PyErr_SetString(PyExc_RuntimeError, "the compiled loops are used through logd.protocol.loops");
        return NULL;
    }
    return state;
}

/* Call the same function of the twin with the arguments as they were given. */
static PyObject *
ask_twin(struct state *state, int part, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    return PyObject_Vectorcall(state->parts[part], args, (size_t)count, names);
}

/* ---- Arguments ---- */

/* Sort arguments into out, by place or name; return false if the twin has to judge them. */
static bool
place_arguments(const char *const *names, int most, int by_place, PyObject *const *args, Py_ssize_t count,
                PyObject *keywords, PyObject **out)
{
    if (count > by_place) {
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        out[i] = args[i];
    }
    Py_ssize_t named = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    for (Py_ssize_t i = 0; i < named; i++) {
        int place = 0;
        while (place < most && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, i), names[place]) != 0) {
            place++;
        }
        if (place == most || out[place] != NULL) {
            return false;
        }
        out[place] = args[count + i];
    }
    return true;
}

/* Positions and indexes beyond this go to the twin; sums of a few of them fit. */
#define FAR ((int64_t)1 << 61)

/* Read an int into *value, which stays as it is if none is given; return false if the twin has to judge it. */
static bool
int_argument(PyObject *given, int64_t *value)
{
    if (given == NULL) {
        return true;
    }
    if (!PyLong_CheckExact(given)) {
        return false;
    }
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(given, &overflow);
    return overflow == 0;
}

/* Read a limit: beyond FAR, one is as good as another, since no buffer has so many bytes. */
static bool
limit_argument(PyObject *given, int64_t *value)
{
    if (!int_argument(given, value)) {
        return false;
    }
    *value = *value > FAR ? FAR : *value < -FAR ? -FAR : *value;
    return true;
}

struct input {
    const uint8_t *bytes;
    int64_t size;
    bool held;
    Py_buffer view;
};

/* Get at the bytes of an object; return false, without an exception, if the twin has to judge it. */
static bool
open_input(PyObject *data, struct input *input)
{
    input->held = false;
    if (data == NULL) {
        return false;
    }
    if (PyBytes_CheckExact(data)) {
        input->bytes = (const uint8_t *)PyBytes_AS_STRING(data);
        input->size = PyBytes_GET_SIZE(data);
        return true;
    }
    if (!PyMemoryView_Check(data) && !PyByteArray_CheckExact(data)) {
        return false;
    }
    if (PyObject_GetBuffer(data, &input->view, PyBUF_ND | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return false;
    }
    /* The twin would count the items of wider ones, and sees chars as bytes objects. */
    if (input->view.ndim != 1 || input->view.itemsize != 1 ||
        (input->view.format != NULL && strcmp(input->view.format, "B") != 0)) {
        PyBuffer_Release(&input->view);
        return false;
    }
    input->held = true;
    input->bytes = input->view.buf;
    input->size = input->view.len;
    return true;
}

static void
close_input(struct input *input)
{
    if (input->held) {
        PyBuffer_Release(&input->view);
        input->held = false;
    }
}

/* ---- Objects ---- */

/* Return a new tuple of a class that adds no fields to tuple; every item has to be set at once. Not yet known to the
 * garbage collector: what holds only bytes, str and int can be in no cycle, and the collector need not look at it. */
static PyObject *
new_tuple(PyObject *class, Py_ssize_t size)
{
    return (PyObject *)PyObject_GC_NewVar(PyTupleObject, (PyTypeObject *)class, size);
}

/* Return a tuple of the class with these items, whose references it takes over; NULL if one of them is NULL. */
static PyObject *
tuple_of(PyObject *class, Py_ssize_t size, PyObject **items)
{
    PyObject *made = NULL;
    bool whole = true;
    for (Py_ssize_t i = 0; i < size; i++) {
        whole = whole && items[i] != NULL;
    }
    if (whole) {
        made = new_tuple(class, size);
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        if (made == NULL) {
            Py_XDECREF(items[i]);
        }
        else {
            PyTuple_SET_ITEM(made, i, items[i]);
        }
    }
    if (made != NULL) {
        PyObject_GC_Track(made);
    }
    return made;
}

/* Append an item, whose reference is taken over; return false with an exception if it is NULL or memory is short. */
static bool
append_new(PyObject *list, PyObject *item)
{
    if (item == NULL) {
        return false;
    }
    int failed = PyList_Append(list, item);
    Py_DECREF(item);
    return failed == 0;
}

static PyObject *
new_bytes(const uint8_t *data, int64_t from, int64_t to)
{
    return PyBytes_FromStringAndSize((const char *)data + from, (Py_ssize_t)(to - from));
}

static PyObject *
new_none(void)
{
    Py_RETURN_NONE;
}

/* ---- Numbers in bytes ---- */

static inline uint32_t
read_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static inline int32_t
read_i32(const uint8_t *at)
{
    return (int32_t)read_u32(at);
}

static inline int64_t
read_i64(const uint8_t *at)
{
    return (int64_t)((uint64_t)read_u32(at) << 32 | read_u32(at + 4));
}

static inline uint8_t *
write_u32(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
    return to + 4;
}

static inline uint8_t *
write_bytes(uint8_t *to, const void *from, size_t size)
{
    memcpy(to, from, size);
    return to + size;
}

static inline int64_t
varint_size(uint64_t value)
{
    int64_t size = 1;
    while (value >= 0x80) {
        value >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *
write_varint(uint8_t *to, uint64_t value)
{
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

/* Kafka's varints: the sign is the lowest bit. */
static inline uint64_t
zigzag(int64_t value)
{
    return value >= 0 ? (uint64_t)value << 1 : ~((uint64_t)value << 1);
}

/* Read a varint of at most so many bytes; return false if it is longer, or cut off at stop. */
static inline bool
read_varint(const uint8_t *data, int64_t *at, int64_t stop, int most, uint64_t *value)
{
    int64_t index = *at;
    uint64_t sum = 0;
    for (int i = 0; i < most && index < stop; i++) {
        uint8_t byte = data[index++];
        if (i == 9 && byte > 1) {
            return false; /* more than 64 bits */
        }
        sum |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            *at = index;
            *value = sum;
            return true;
        }
    }
    return false;
}

static inline bool
read_zigzag(const uint8_t *data, int64_t *at, int64_t stop, int64_t *value)
{
    uint64_t raw;
    if (*at < stop && data[*at] < 0x80) { /* most numbers take one byte */
        raw = data[(*at)++];
    }
    else if (!read_varint(data, at, stop, 10, &raw)) {
        return false;
    }
    *value = raw & 1 ? (int64_t)~(raw >> 1) : (int64_t)(raw >> 1);
    return true;
}

/* ---- Checksums ---- */

/* tables[k][b]: the checksum of the byte b followed by k zero bytes, to take eight bytes in one step. */
typedef uint32_t tables_t[8][256];

static tables_t crc32_tables, crc32c_tables;

static void
fill_tables(tables_t tables, uint32_t polynomial)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) {
            sum = sum & 1 ? sum >> 1 ^ polynomial : sum >> 1;
        }
        tables[0][byte] = sum;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int k = 1; k < 8; k++) {
            uint32_t before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
        }
    }
}

/* Continue the inverted checksum over more bytes. */
static uint32_t
by_tables(const tables_t tables, uint32_t sum, const uint8_t *data, size_t size)
{
    for (; size >= 8; size -= 8, data += 8) {
        uint32_t low =
            sum ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        sum = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^ tables[4][low >> 24] ^
              tables[3][data[4]] ^ tables[2][data[5]] ^ tables[1][data[6]] ^ tables[0][data[7]];
    }
    for (; size > 0; size--, data++) {
        sum = sum >> 8 ^ tables[0][(sum ^ *data) & 0xFF];
    }
    return sum;
}

static uint32_t
crc32_by_tables(uint32_t crc, const uint8_t *data, size_t size)
{
    return ~by_tables(crc32_tables, ~crc, data, size);
}

static uint32_t
crc32c_by_tables(uint32_t crc, const uint8_t *data, size_t size)
{
    return ~by_tables(crc32c_tables, ~crc, data, size);
}

static uint32_t (*crc32)(uint32_t, const uint8_t *, size_t) = crc32_by_tables;
static uint32_t (*crc32c)(uint32_t, const uint8_t *, size_t) = crc32c_by_tables;

#if defined(__x86_64__)
#include <nmmintrin.h>
#include <wmmintrin.h>

/* Folding by carry-less multiplication, as in Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction" (Intel, 2009): 16 bytes at a distance of D bits from the end are congruent, modulo the polynomial P, to
 * their halves times x^(D + 32) and x^(D - 32) mod P. Each constant is such a remainder, bits reversed, shifted left by
 * one: for D = 512 and D = 128. */
struct folding {
    uint64_t far[2], near[2];
};

static const struct folding CRC32_FOLDING = {{0x154442bd4, 0x1c6e41596}, {0x1751997d0, 0x0ccaa009e}};
static const struct folding CRC32C_FOLDING = {{0x0740eef02, 0x09e4addf8}, {0x0f20c0dfe, 0x14cd00bd6}};
/* x^64 mod P; P itself; x^64 / P: of CRC-32, each reversed. */
#define CRC32_X64 0x163cd6124
#define CRC32_P 0x1db710641
#define CRC32_QUOTIENT 0x1f7011641

#define LEAST_TO_FOLD 16

__attribute__((target("pclmul"))) static inline __m128i
fold_once(__m128i sum, __m128i constants, __m128i next)
{
    __m128i low = _mm_clmulepi64_si128(sum, constants, 0x00);
    __m128i high = _mm_clmulepi64_si128(sum, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

static inline __m128i
load(const uint8_t *data)
{
    return _mm_loadu_si128((const __m128i *)data);
}

/* Fold all whole blocks of 16 bytes into one that is congruent to them and to the inverted checksum before them. */
__attribute__((target("pclmul"))) static inline __m128i
fold(const struct folding *by, uint32_t sum, const uint8_t *data, size_t size)
{
    __m128i all = _mm_xor_si128(load(data), _mm_cvtsi32_si128((int)sum));
    __m128i near = load((const uint8_t *)by->near);
    if (size >= 64) {
        /* Four sums at once: a multiplication takes several cycles, but another may begin in each. */
        __m128i far = load((const uint8_t *)by->far);
        __m128i second = load(data + 16), third = load(data + 32), fourth = load(data + 48);
        for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
            all = fold_once(all, far, load(data));
            second = fold_once(second, far, load(data + 16));
            third = fold_once(third, far, load(data + 32));
            fourth = fold_once(fourth, far, load(data + 48));
        }
        all = fold_once(fold_once(fold_once(all, near, second), near, third), near, fourth);
    }
    else {
        data += 16;
        size -= 16;
    }
    for (; size >= 16; data += 16, size -= 16) {
        all = fold_once(all, near, load(data));
    }
    return all;
}

__attribute__((target("pclmul"))) static uint32_t
crc32_by_folding(uint32_t crc, const uint8_t *data, size_t size)
{
    if (size < LEAST_TO_FOLD) {
        return crc32_by_tables(crc, data, size);
    }
    __m128i all = fold(&CRC32_FOLDING, ~crc, data, size);
    /* From 128 bits to 96, to 64, and by Barrett's reduction to 32. */
    __m128i low32 = _mm_set_epi32(0, -1, 0, -1);
    __m128i constant = load((const uint8_t *)CRC32_FOLDING.near);
    all = _mm_xor_si128(_mm_srli_si128(all, 8), _mm_clmulepi64_si128(all, constant, 0x10));
    constant = _mm_set_epi64x(0, CRC32_X64);
    all = _mm_xor_si128(_mm_srli_si128(all, 4), _mm_clmulepi64_si128(_mm_and_si128(all, low32), constant, 0x00));
    constant = _mm_set_epi64x(CRC32_QUOTIENT, CRC32_P);
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(all, low32), constant, 0x10);
    all = _mm_xor_si128(all, _mm_clmulepi64_si128(_mm_and_si128(quotient, low32), constant, 0x00));
    uint32_t sum = (uint32_t)_mm_cvtsi128_si32(_mm_srli_si128(all, 4));
    size_t tail = size % 16;
    return ~by_tables(crc32_tables, sum, data + size - tail, tail);
}

__attribute__((target("sse4.2"))) static uint32_t
crc32c_step(uint32_t sum, const uint8_t *data, size_t size)
{
    uint64_t wide = sum;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    sum = (uint32_t)wide;
    for (; size > 0; size--, data++) {
        sum = _mm_crc32_u8(sum, *data);
    }
    return sum;
}

/* The instruction alone takes three cycles for 8 bytes, one after the other; folding takes fewer where there is much. */
#define LEAST_TO_FOLD_CRC32C 256

__attribute__((target("sse4.2,pclmul"))) static uint32_t
crc32c_by_instruction(uint32_t crc, const uint8_t *data, size_t size)
{
    uint32_t sum = ~crc;
    if (size >= LEAST_TO_FOLD_CRC32C) {
        uint8_t block[16];
        __m128i all = fold(&CRC32C_FOLDING, sum, data, size);
        _mm_storeu_si128((__m128i *)block, all);
        size_t tail = size % 16;
        data += size - tail;
        size = tail;
        sum = crc32c_step(0, block, 16);
    }
    return ~crc32c_step(sum, data, size);
}

static const char *
choose_checksums(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.2")) {
        return "tables";
    }
    crc32 = crc32_by_folding;
    crc32c = crc32c_by_instruction;
    return "instructions";
}
#else
static const char *
choose_checksums(void)
{
    return "tables";
}
#endif

static PyObject *
checksum(uint32_t (*of)(uint32_t, const uint8_t *, size_t), PyObject *const *args, Py_ssize_t count)
{
    if (count < 1 || count > 2) {
        PyErr_Format(PyExc_TypeError, "a checksum takes data and, if it is continued, the one before: not %zd values",
                     count);
        return NULL;
    }
    uint32_t crc = 0;
    if (count == 2) {
        unsigned long before = PyLong_AsUnsignedLongMask(args[1]);
        if (before == (unsigned long)-1 && PyErr_Occurred()) {
            return NULL;
        }
        crc = (uint32_t)before;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    crc = of(crc, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *
crc32_of(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return checksum(crc32, args, count);
}

static PyObject *
crc32c_of(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return checksum(crc32c, args, count);
}

static PyObject *
crc32_of_tables(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return checksum(crc32_by_tables, args, count);
}

static PyObject *
crc32c_of_tables(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return checksum(crc32c_by_tables, args, count);
}

/* ---- Entries ---- */

enum { PLAIN = 0, WRAPPER = 1, KEYED = 2, BATCH = 3, GAP = 0x7F };

#define LENGTH_BYTES 4
#define HEAD_BYTES 9          /* N, magic, checksum: also the least size of an entry */
#define WRAPPER_HEAD_BYTES 10 /* N, magic, attributes, checksum */
#define KEY_AT 22
#define BATCH_HEAD_BYTES 61
#define BATCH_FIELDS_AT 21
#define PLAIN_MINIMUM 5
#define WRAPPER_MINIMUM 6
#define KEYED_MINIMUM 19
#define BATCH_MINIMUM (BATCH_HEAD_BYTES - LENGTH_BYTES)
#define NO_VALUE 0x08
#define CODEC_MASK 3

/* Where an entry stands: the index of its N, and the index behind it. The buffer holds it whole. */
struct span {
    const uint8_t *data;
    int64_t at, stop;
};

static inline bool
sum_holds(struct span entry, int64_t stored_at, int64_t from)
{
    return crc32(0, entry.data + entry.at + from, (size_t)(entry.stop - entry.at - from)) ==
           read_u32(entry.data + entry.at + stored_at);
}

static bool
gap_holds(const uint8_t *head)
{
    return crc32(0, head, LENGTH_BYTES) == read_u32(head + 5);
}

/* Headers of a keyed entry as Python objects, kept while the next entries have the same bytes, as they mostly do. */
struct known_headers {
    PyObject *headers; /* owned; NULL before the first */
    const uint8_t *bytes;
    int64_t size;
};

/* Walk over the headers of a keyed entry at *at; return 1 with *at behind them, 0 if they are invalid, -1 for an
 * exception. Where `pairs` is given, it gets a tuple of them. */
static int
walk_headers(const uint8_t *data, int64_t *at, int64_t stop, PyObject **pairs)
{
    uint64_t count, size;
    int64_t index = *at;
    if (!read_varint(data, &index, stop, 5, &count) || count * 2 > (uint64_t)(stop - index)) {
        return 0;
    }
    PyObject *made = pairs == NULL ? NULL : PyTuple_New((Py_ssize_t)count);
    if (pairs != NULL && made == NULL) {
        return -1;
    }
    for (uint64_t i = 0; i < count; i++) {
        int result = 0;
        PyObject *name = NULL;
        if (!read_varint(data, &index, stop, 5, &size) || size > (uint64_t)(stop - index)) {
            goto failed;
        }
        /* Decoded in any case: only the decoder knows which bytes are UTF-8. */
        name = PyUnicode_DecodeUTF8((const char *)data + index, (Py_ssize_t)size, NULL);
        if (name == NULL) {
            if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
                PyErr_Clear();
            }
            else {
                result = -1;
            }
            goto failed;
        }
        index += (int64_t)size;
        if (!read_varint(data, &index, stop, 5, &size) || (size > 0 && size - 1 > (uint64_t)(stop - index))) {
            goto failed;
        }
        int64_t end = size > 0 ? index + (int64_t)size - 1 : index;
        if (made == NULL) {
            Py_DECREF(name);
        }
        else {
            PyObject *value = size > 0 ? new_bytes(data, index, end) : new_none();
            PyObject *pair = value == NULL ? NULL : PyTuple_Pack(2, name, value);
            Py_XDECREF(value);
            if (pair == NULL) {
                result = -1;
                goto failed;
            }
            Py_DECREF(name);
            PyTuple_SET_ITEM(made, (Py_ssize_t)i, pair);
        }
        index = end;
        continue;
    failed:
        Py_XDECREF(name);
        Py_XDECREF(made);
        return result;
    }
    *at = index;
    if (pairs != NULL) {
        *pairs = made;
    }
    return 1;
}

/* The fields of a keyed entry, by index. A key length below 0 means that there is no key. */
struct keyed {
    int64_t time, key_length, headers_at, value_at;
    uint8_t attributes;
};

/* Read the fields before the headers; the entry has the least length. Return false if one is out of range. */
static inline bool
read_keyed(struct span entry, struct keyed *fields)
{
    const uint8_t *head = entry.data + entry.at;
    fields->attributes = head[9];
    fields->time = read_i64(head + 10);
    fields->key_length = read_i32(head + 18);
    fields->headers_at = entry.at + KEY_AT + (fields->key_length > 0 ? fields->key_length : 0);
    fields->value_at = fields->headers_at + 1; /* where there are no headers */
    return (fields->attributes == 0 || fields->attributes == NO_VALUE) && fields->time >= -1 &&
           fields->key_length >= -1 && fields->headers_at < entry.stop;
}

/* Read all fields, and the headers through `known` unless it is NULL; return 1, or 0 if a field is invalid, or -1. */
static int
read_all_keyed(struct span entry, struct keyed *fields, struct known_headers *known)
{
    if (!read_keyed(entry, fields)) {
        return 0;
    }
    if (entry.data[fields->headers_at] != 0) {
        const uint8_t *begin = entry.data + fields->headers_at;
        if (known != NULL && known->headers != NULL && known->size <= entry.stop - fields->headers_at &&
            memcmp(begin, known->bytes, (size_t)known->size) == 0) {
            fields->value_at = fields->headers_at + known->size;
        }
        else {
            PyObject *pairs = NULL;
            fields->value_at = fields->headers_at;
            int result = walk_headers(entry.data, &fields->value_at, entry.stop, known == NULL ? NULL : &pairs);
            if (result != 1) {
                return result;
            }
            if (known != NULL) {
                Py_XSETREF(known->headers, pairs);
                known->bytes = begin;
                known->size = fields->value_at - fields->headers_at;
            }
        }
    }
    return fields->attributes == 0 || fields->value_at == entry.stop;
}

/* ---- The head of a batch ---- */

struct batch {
    int64_t records_end; /* an index in the entry */
    int32_t leader_epoch, last_delta, base_sequence, count;
    int64_t base_time, max_time, producer_id;
    uint16_t attributes;
    int16_t producer_epoch;
};

/* Return the index behind the records of a batch by its head; 0 if that is damaged, or its lengths do not fit. */
static int64_t
records_end_of(struct span entry)
{
    const uint8_t *head = entry.data + entry.at;
    int64_t length = entry.stop - entry.at - LENGTH_BYTES;
    if (length < BATCH_MINIMUM) {
        return 0;
    }
    int64_t inner = read_i32(head + 8);
    if (head[16] != 2 || inner < BATCH_HEAD_BYTES - 12 || inner > length - 8 ||
        (crc32(crc32(0, head, 5), head + 8, 9) & 0xFFFFFF) != (read_u32(head + 4) & 0xFFFFFF)) {
        return 0;
    }
    return 12 + inner;
}

/* Return whether the checksum of a batch holds, whose records end at an index. */
static bool
batch_holds(const uint8_t *head, int64_t records_end)
{
    return crc32c(0, head + BATCH_FIELDS_AT, (size_t)(records_end - BATCH_FIELDS_AT)) == read_u32(head + 17);
}

/* Read the head of a batch; return false if it is damaged, its lengths do not fit, or its records' checksum is wrong. */
static bool
read_batch(struct span entry, struct batch *batch)
{
    const uint8_t *head = entry.data + entry.at;
    batch->records_end = records_end_of(entry);
    if (batch->records_end == 0 || !batch_holds(head, batch->records_end)) {
        return false;
    }
    batch->leader_epoch = read_i32(head + 12);
    batch->attributes = (uint16_t)(head[21] << 8 | head[22]);
    batch->last_delta = read_i32(head + 23);
    batch->base_time = read_i64(head + 27);
    batch->max_time = read_i64(head + 35);
    batch->producer_id = read_i64(head + 43);
    batch->producer_epoch = (int16_t)(head[51] << 8 | head[52]);
    batch->base_sequence = read_i32(head + 53);
    batch->count = read_i32(head + 57);
    return true;
}

/* ---- check_set ---- */

#define ZSTD 3 /* of magic 1 */
#define BATCH_ATTRIBUTES 0x0F /* the codec, and the time of appending */
#define BATCH_CODEC_MASK 7
#define MOST_BATCH_CODEC 4

/* Return whether a producer may send this batch, whose checksums hold. */
static bool
may_be_sent(struct span entry, const struct batch *batch)
{
    int64_t size = entry.stop - entry.at;
    if (batch->count <= 0 || batch->count - 1 != batch->last_delta ||
        size != (batch->records_end > batch->count ? batch->records_end : batch->count) ||
        (batch->attributes & ~BATCH_ATTRIBUTES) != 0 || (batch->attributes & BATCH_CODEC_MASK) > MOST_BATCH_CODEC ||
        batch->producer_id != -1 || batch->producer_epoch != -1 || batch->base_sequence != -1) {
        return false;
    }
    for (int64_t i = entry.at + batch->records_end; i < entry.stop; i++) {
        if (entry.data[i] != 0) {
            return false;
        }
    }
    return true;
}

struct checked {
    int64_t count, newest;
    bool has_batches, has_epochs;
};

/* Check a whole set; return 1 if it is sound, 0 if the twin has to judge it, -1 for an exception. With legacy, the twin
 * judges all that clients of 0.7 cannot read. */
static int
check_entries(struct state *state, PyObject *object, const struct input *input, int64_t most, int64_t most_of_batch,
              bool legacy, struct checked *found)
{
    const uint8_t *data = input->bytes;
    int64_t at = 0;
    while (at <= input->size - HEAD_BYTES) {
        int64_t length = read_i32(data + at);
        struct span entry = {data, at, at + LENGTH_BYTES + length};
        int64_t time = -1;
        if (length < PLAIN_MINIMUM || entry.stop > input->size) {
            return 0;
        }
        switch (data[at + 4]) {
        case PLAIN:
            if (length - PLAIN_MINIMUM > most || !sum_holds(entry, 5, HEAD_BYTES)) {
                return 0;
            }
            break;
        case KEYED: {
            struct keyed fields;
            if (legacy || length < KEYED_MINIMUM || length - PLAIN_MINIMUM > most || !sum_holds(entry, 5, HEAD_BYTES)) {
                return 0;
            }
            int result = read_all_keyed(entry, &fields, NULL);
            if (result != 1) {
                return result;
            }
            time = fields.time;
            break;
        }
        case WRAPPER: {
            uint8_t attributes = data[at + 5];
            if (length < WRAPPER_MINIMUM || length - WRAPPER_MINIMUM > most ||
                !sum_holds(entry, 6, WRAPPER_HEAD_BYTES) || (legacy && (attributes & CODEC_MASK) == ZSTD)) {
                return 0;
            }
            if (attributes & CODEC_MASK) {
                PyObject *payload = PySequence_GetSlice(object, (Py_ssize_t)at + WRAPPER_HEAD_BYTES,
                                                        (Py_ssize_t)entry.stop);
                PyObject *may_be = payload == NULL ? NULL
                                                   : PyObject_CallFunction(state->parts[MAY_BE_WRAPPER], "iO",
                                                                           (int)attributes, payload);
                Py_XDECREF(payload);
                int result = may_be == NULL ? -1 : PyObject_IsTrue(may_be);
                Py_XDECREF(may_be);
                if (result != 1) {
                    return result;
                }
            }
            break;
        }
        case BATCH: {
            struct batch batch;
            if (legacy || entry.stop - at > most_of_batch || !read_batch(entry, &batch) || !may_be_sent(entry, &batch)) {
                return 0;
            }
            found->has_batches = true;
            if (batch.leader_epoch != -1) {
                found->has_epochs = true;
            }
            time = batch.max_time;
            found->count += batch.count - 1;
            break;
        }
        default:
            return 0;
        }
        if (time > found->newest) {
            found->newest = time;
        }
        found->count++;
        at = entry.stop;
    }
    return at == input->size && found->count > 0;
}

static PyObject *
check_set(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "max_message_bytes", "max_batch_bytes", "legacy"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[4] = {NULL};
    struct input input;
    int64_t most = 0, most_of_batch = 0;
    int result = 0;
    struct checked found = {.newest = -1};
    if (place_arguments(names, 4, 4, args, count, keywords, given) && given[1] != NULL &&
        limit_argument(given[1], &most) &&
        limit_argument(given[2] == NULL ? state->parts[DEFAULT_BATCH_BYTES] : given[2], &most_of_batch) &&
        (given[3] == NULL || PyBool_Check(given[3])) && open_input(given[0], &input)) {
        result = check_entries(state, given[0], &input, most, most_of_batch, given[3] == Py_True, &found);
        close_input(&input);
    }
    if (result < 0) {
        return NULL;
    }
    if (result == 0) {
        return ask_twin(state, TWIN_CHECK_SET, args, count, keywords);
    }
    PyObject *items[] = {PyLong_FromLongLong(found.count), PyLong_FromLongLong(found.newest),
                         PyBool_FromLong(found.has_batches), PyBool_FromLong(found.has_epochs)};
    return tuple_of(state->parts[CLASS_CHECKED], 4, items);
}

/* ---- scan_set ---- */

struct scan {
    PyObject *data, *readable; /* borrowed; readable is NULL if there is none */
    PyObject *boundaries, *problem; /* owned */
    PyObject *view;                 /* owned: of the data, made for the first call of readable */
    int64_t at, newest, previous, entries, gaps, gap_bytes, next_boundary, boundary_bytes;
};

/* Call readable for an entry; return 1 if it can be read, 2 if not (with the problem noted), -1 for an exception. */
static int
ask_readable(struct scan *scan, struct span entry)
{
    if (scan->view == NULL && (scan->view = PyMemoryView_FromObject(scan->data)) == NULL) {
        return -1;
    }
    PyObject *problem = PyObject_CallFunction(scan->readable, "OLL", scan->view, (long long)entry.at,
                                              (long long)entry.stop);
    if (problem == NULL) {
        return -1;
    }
    int wrong = PyObject_IsTrue(problem);
    if (wrong == 1) {
        Py_XSETREF(scan->problem, problem);
        return 2;
    }
    Py_DECREF(problem);
    return wrong == 0 ? 1 : -1;
}

/* Check the complete entry at scan->at; return 1 if it is sound, 2 if readable has a problem, 0 if the twin has to judge
 * it, -1 for an exception. *time is its newest time. */
static int
scan_entry(struct scan *scan, struct span entry, int64_t *time)
{
    const uint8_t *head = entry.data + entry.at;
    int64_t length = entry.stop - entry.at - LENGTH_BYTES;
    *time = -1;
    switch (head[4]) {
    case PLAIN:
        return length >= PLAIN_MINIMUM && sum_holds(entry, 5, HEAD_BYTES);
    case KEYED: {
        struct keyed fields;
        if (length < KEYED_MINIMUM || !sum_holds(entry, 5, HEAD_BYTES)) {
            return 0;
        }
        bool common = read_keyed(entry, &fields) && fields.attributes == 0 && entry.data[fields.headers_at] == 0;
        *time = fields.time;
        return common || scan->readable == NULL ? 1 : ask_readable(scan, entry);
    }
    case WRAPPER:
        if (length < WRAPPER_MINIMUM || !sum_holds(entry, 6, WRAPPER_HEAD_BYTES)) {
            return 0;
        }
        return (head[5] & CODEC_MASK) == 0 || scan->readable == NULL ? 1 : ask_readable(scan, entry);
    case BATCH: {
        struct batch batch;
        if (!read_batch(entry, &batch)) {
            return 0;
        }
        *time = batch.max_time;
        return scan->readable == NULL ? 1 : ask_readable(scan, entry);
    }
    case GAP:
        if (length < PLAIN_MINIMUM || !gap_holds(head)) {
            return 0;
        }
        scan->gaps++;
        scan->gap_bytes += entry.stop - entry.at;
        return 1;
    default:
        return 0;
    }
}

/* Scan up to an entry that is not sound; return as scan_entry does, 2 also at the end. */
static int
scan_entries(struct scan *scan, const struct input *input, int64_t until)
{
    const uint8_t *data = input->bytes;
    int64_t last = input->size - HEAD_BYTES < until - 1 ? input->size - HEAD_BYTES : until - 1;
    while (scan->at <= last) {
        int64_t length = read_i32(data + scan->at), time;
        struct span entry = {data, scan->at, scan->at + LENGTH_BYTES + length};
        if (length < PLAIN_MINIMUM || entry.stop > input->size) {
            return 0;
        }
        int result = scan_entry(scan, entry, &time);
        if (result != 1) {
            return result;
        }
        if (scan->at >= scan->next_boundary) {
            if (!append_new(scan->boundaries, Py_BuildValue("LL", (long long)scan->at, (long long)scan->newest))) {
                return -1;
            }
            scan->next_boundary = scan->at + scan->boundary_bytes;
        }
        if (time > scan->newest) {
            scan->newest = time;
        }
        scan->entries++;
        scan->previous = scan->at;
        scan->at = entry.stop;
    }
    return 2;
}

/* Let the twin judge the entry at scan->at, which it stops at; take over what it found. Return false on an exception. */
static bool
scan_rest(struct state *state, struct scan *scan, int64_t until)
{
    PyObject *rest = NULL, *boundaries;
    PyObject *named = Py_BuildValue("{sLsLsLsO}", "newest", (long long)scan->newest, "next_boundary",
                                    (long long)scan->next_boundary, "boundary_bytes", (long long)scan->boundary_bytes,
                                    "readable", scan->readable == NULL ? Py_None : scan->readable);
    PyObject *placed = Py_BuildValue("(OLL)", scan->data, (long long)scan->at, (long long)until);
    bool done = false;
    long long at, entries, newest, previous, gaps, gap_bytes;
    PyObject *problem;
    if (named == NULL || placed == NULL) {
        goto end;
    }
    rest = PyObject_Call(state->parts[TWIN_SCAN_SET], placed, named);
    if (rest == NULL || !PyArg_ParseTuple(rest, "LLLOLLLO!", &at, &entries, &newest, &problem, &previous, &gaps,
                                          &gap_bytes, &PyList_Type, &boundaries)) {
        goto end;
    }
    scan->at = at;
    scan->entries += entries;
    scan->newest = newest;
    scan->gaps += gaps;
    scan->gap_bytes += gap_bytes;
    if (previous >= 0) {
        scan->previous = previous;
    }
    Py_INCREF(problem);
    Py_XSETREF(scan->problem, problem);
    Py_ssize_t size = PyList_GET_SIZE(scan->boundaries);
    done = PyList_SetSlice(scan->boundaries, size, size, boundaries) == 0;
end:
    Py_XDECREF(named);
    Py_XDECREF(placed);
    Py_XDECREF(rest);
    return done;
}

static PyObject *
scan_set(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "begin", "until", "newest", "next_boundary", "boundary_bytes",
                                        "checksums", "readable"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[8] = {NULL};
    struct input input;
    struct scan scan = {.newest = -1, .previous = -1, .next_boundary = FAR, .boundary_bytes = FAR};
    int64_t until = FAR;
    if (!place_arguments(names, 8, 3, args, count, keywords, given) || !int_argument(given[1], &scan.at) ||
        !limit_argument(given[2], &until) || !int_argument(given[3], &scan.newest) ||
        !limit_argument(given[4], &scan.next_boundary) || !limit_argument(given[5], &scan.boundary_bytes) ||
        (given[6] != NULL && given[6] != state->parts[DEFAULT_CHECKSUMS]) || scan.at < 0 || scan.at > FAR ||
        scan.newest < -1 || !open_input(given[0], &input)) {
        return ask_twin(state, TWIN_SCAN_SET, args, count, keywords);
    }
    scan.readable = given[7] == Py_None ? NULL : given[7];
    scan.problem = PyUnicode_FromStringAndSize(NULL, 0);
    scan.boundaries = PyList_New(0);
    scan.data = given[0];
    PyObject *made = NULL;
    if (scan.problem != NULL && scan.boundaries != NULL) {
        int result = scan_entries(&scan, &input, until);
        if (result > 0 || (result == 0 && scan_rest(state, &scan, until))) {
            PyObject *items[] = {
                PyLong_FromLongLong(scan.at),        PyLong_FromLongLong(scan.entries),
                PyLong_FromLongLong(scan.newest),    Py_NewRef(scan.problem),
                PyLong_FromLongLong(scan.previous),  PyLong_FromLongLong(scan.gaps),
                PyLong_FromLongLong(scan.gap_bytes), Py_NewRef(scan.boundaries),
            };
            made = tuple_of(state->parts[CLASS_SCANNED], 8, items);
        }
    }
    Py_XDECREF(scan.problem);
    Py_XDECREF(scan.boundaries);
    Py_XDECREF(scan.view);
    close_input(&input);
    return made;
}

/* ---- Messages to be encoded ---- */

/* The fields of a message, borrowed from a list or tuple that nothing changes meanwhile: no Python code runs here. */
struct message {
    const char *payload, *key; /* NULL for none */
    int64_t payload_size, key_size;
    int64_t time;
    bool has_time;
    PyObject *headers;
};

static bool
bytes_or_none(PyObject *value, const char **bytes, int64_t *size)
{
    *bytes = NULL;
    *size = 0;
    if (value == Py_None) {
        return true;
    }
    if (!PyBytes_CheckExact(value)) {
        return false;
    }
    *bytes = PyBytes_AS_STRING(value);
    *size = PyBytes_GET_SIZE(value);
    return true;
}

/* Read a message but for its headers' parts; return false, without an exception, if the twin has to judge it. */
static bool
read_fields(struct state *state, PyObject *object, struct message *message)
{
    if (!Py_IS_TYPE(object, (PyTypeObject *)state->parts[CLASS_MESSAGE]) || PyTuple_GET_SIZE(object) != 8 ||
        !bytes_or_none(PyTuple_GET_ITEM(object, 0), &message->payload, &message->payload_size) ||
        !bytes_or_none(PyTuple_GET_ITEM(object, 1), &message->key, &message->key_size)) {
        return false;
    }
    PyObject *time = PyTuple_GET_ITEM(object, 2);
    message->has_time = time != Py_None;
    if (message->has_time && !int_argument(time, &message->time)) {
        return false;
    }
    message->headers = PyTuple_GET_ITEM(object, 3);
    return PyTuple_CheckExact(message->headers);
}

/* Read a message as read_fields does. Each header is checked too. */
static bool
read_message(struct state *state, PyObject *object, struct message *message)
{
    if (!read_fields(state, object, message)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(message->headers); i++) {
        PyObject *pair = PyTuple_GET_ITEM(message->headers, i);
        if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2 || !PyUnicode_CheckExact(PyTuple_GET_ITEM(pair, 0)) ||
            (PyTuple_GET_ITEM(pair, 1) != Py_None && !PyBytes_CheckExact(PyTuple_GET_ITEM(pair, 1)))) {
            return false;
        }
        Py_ssize_t size;
        if (PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(pair, 0), &size) == NULL) {
            PyErr_Clear(); /* an unpaired surrogate */
            return false;
        }
    }
    return true;
}

/* Read a payload that stands for a message without anything else, as read_message does. */
static bool
read_payload(struct state *state, PyObject *object, struct message *message)
{
    message->key = NULL;
    message->key_size = 0;
    message->has_time = false;
    message->headers = state->no_headers;
    return object != Py_None && bytes_or_none(object, &message->payload, &message->payload_size);
}

typedef bool (*reader)(struct state *, PyObject *, struct message *);

/* Read a header of a message that was read before; its name is kept in its object as UTF-8 since then. */
static void
read_header(PyObject *headers, Py_ssize_t i, const char **name, int64_t *name_size, const char **value, int64_t *size)
{
    PyObject *pair = PyTuple_GET_ITEM(headers, i);
    Py_ssize_t length = 0;
    *name = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(pair, 0), &length);
    *name_size = length;
    bytes_or_none(PyTuple_GET_ITEM(pair, 1), value, size);
}

/* Entries have lengths of 32 bits, and this is far enough below that nothing added to it is beyond them. */
#define MOST_BYTES ((int64_t)1 << 30)

/* ---- encode_set ---- */

static inline bool
is_plain(const struct message *message)
{
    return message->key == NULL && !message->has_time && PyTuple_GET_SIZE(message->headers) == 0 &&
           message->payload != NULL;
}

static int64_t
size_of_headers(PyObject *headers)
{
    Py_ssize_t count = PyTuple_GET_SIZE(headers);
    int64_t sum = varint_size((uint64_t)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name, *value;
        int64_t name_size, size;
        read_header(headers, i, &name, &name_size, &value, &size);
        sum += varint_size((uint64_t)name_size) + name_size + varint_size(value == NULL ? 0 : (uint64_t)size + 1) + size;
    }
    return sum;
}

static uint8_t *
write_headers(uint8_t *to, PyObject *headers)
{
    Py_ssize_t count = PyTuple_GET_SIZE(headers);
    to = write_varint(to, (uint64_t)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name, *value;
        int64_t name_size, size;
        read_header(headers, i, &name, &name_size, &value, &size);
        to = write_varint(to, (uint64_t)name_size);
        to = write_bytes(to, name, (size_t)name_size);
        to = write_varint(to, value == NULL ? 0 : (uint64_t)size + 1);
        if (value != NULL) {
            to = write_bytes(to, value, (size_t)size);
        }
    }
    return to;
}

static int64_t
size_of_entry(const struct message *message)
{
    if (is_plain(message)) {
        return HEAD_BYTES + message->payload_size;
    }
    return KEY_AT + message->key_size + size_of_headers(message->headers) + message->payload_size;
}

static uint8_t *
write_entry(uint8_t *to, const struct message *message)
{
    uint8_t *begin = to, *body = to + HEAD_BYTES;
    bool plain = is_plain(message);
    to = body;
    if (!plain) {
        *to++ = message->payload == NULL ? NO_VALUE : 0;
        uint64_t time = message->has_time ? (uint64_t)message->time : UINT64_MAX;
        to = write_u32(to, (uint32_t)(time >> 32));
        to = write_u32(to, (uint32_t)time);
        to = write_u32(to, message->key == NULL ? UINT32_MAX : (uint32_t)message->key_size);
        if (message->key != NULL) {
            to = write_bytes(to, message->key, (size_t)message->key_size);
        }
        to = write_headers(to, message->headers);
    }
    if (message->payload != NULL) {
        to = write_bytes(to, message->payload, (size_t)message->payload_size);
    }
    write_u32(begin, (uint32_t)(to - begin - LENGTH_BYTES));
    begin[4] = plain ? PLAIN : KEYED;
    write_u32(begin + 5, crc32(0, body, (size_t)(to - body)));
    return to;
}

/* Encode a list or tuple; return NULL without an exception if the twin has to. */
static inline PyObject *
encode_entries(struct state *state, PyObject *messages, reader read)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(messages);
    PyObject **items = PySequence_Fast_ITEMS(messages);
    struct message message;
    int64_t total = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!read(state, items[i], &message)) {
            return NULL;
        }
        int64_t size = size_of_entry(&message);
        total += size;
        if (size > MOST_BYTES || total > FAR) {
            return NULL;
        }
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (data == NULL) {
        return NULL;
    }
    uint8_t *to = (uint8_t *)PyBytes_AS_STRING(data);
    for (Py_ssize_t i = 0; i < count; i++) {
        read(state, items[i], &message);
        to = write_entry(to, &message);
    }
    return data;
}

static PyObject *
encode_set(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    if (count != 1 || keywords != NULL) {
        return ask_twin(state, TWIN_ENCODE_SET, args, count, keywords);
    }
    /* What can be walked over only once is kept, since the twin may need it as well. */
    bool fixed = PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0]);
    PyObject *messages = fixed ? Py_NewRef(args[0]) : PySequence_List(args[0]);
    if (messages == NULL) {
        return NULL;
    }
    PyObject *data = encode_entries(state, messages, read_message);
    if (data == NULL && !PyErr_Occurred()) {
        data = PyObject_CallOneArg(state->parts[TWIN_ENCODE_SET], messages);
    }
    Py_DECREF(messages);
    return data;
}

/* ---- encode_records ---- */

static inline int64_t
size_of_sized(int64_t size)
{
    return varint_size(zigzag(size)) + size;
}

/* A record's size without its own length; `delta` is that of its time. */
static int64_t
size_of_body(const struct message *message, int64_t delta, int64_t number)
{
    Py_ssize_t count = PyTuple_GET_SIZE(message->headers);
    int64_t sum = 1 + varint_size(zigzag(delta)) + varint_size(zigzag(number)) + varint_size(zigzag(count));
    sum += message->key == NULL ? 1 : size_of_sized(message->key_size);
    sum += message->payload == NULL ? 1 : size_of_sized(message->payload_size);
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name, *value;
        int64_t name_size, size;
        read_header(message->headers, i, &name, &name_size, &value, &size);
        sum += size_of_sized(name_size) + (value == NULL ? 1 : size_of_sized(size));
    }
    return sum;
}

/* Write bytes behind their number, or -1 for none. */
static uint8_t *
write_sized(uint8_t *to, const char *bytes, int64_t size)
{
    if (bytes == NULL) {
        return write_varint(to, zigzag(-1));
    }
    to = write_varint(to, zigzag(size));
    return write_bytes(to, bytes, (size_t)size);
}

static uint8_t *
write_record(uint8_t *to, const struct message *message, int64_t delta, int64_t number)
{
    Py_ssize_t count = PyTuple_GET_SIZE(message->headers);
    to = write_varint(to, zigzag(size_of_body(message, delta, number)));
    *to++ = 0;
    to = write_varint(to, zigzag(delta));
    to = write_varint(to, zigzag(number));
    to = write_sized(to, message->key, message->key_size);
    to = write_sized(to, message->payload, message->payload_size);
    to = write_varint(to, zigzag(count));
    for (Py_ssize_t i = 0; i < count; i++) {
        const char *name, *value;
        int64_t name_size, size;
        read_header(message->headers, i, &name, &name_size, &value, &size);
        to = write_sized(to, name, name_size);
        to = write_sized(to, value, size);
    }
    return to;
}

/* Encode a list or tuple; return NULL without an exception if the twin has to. */
static inline PyObject *
encode_all_records(struct state *state, PyObject *messages, reader read)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(messages);
    PyObject **items = PySequence_Fast_ITEMS(messages);
    struct message message;
    int64_t base = -1, newest = -1, total = 0;
    bool timed = false;
    for (Py_ssize_t i = 0; i < count && !timed && read == read_message; i++) { /* the first time that there is */
        if (!read(state, items[i], &message)) {
            return NULL;
        }
        if (message.has_time) {
            timed = true;
            base = newest = message.time;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!read(state, items[i], &message)) {
            return NULL;
        }
        int64_t time = message.has_time ? message.time : -1;
        if (message.has_time && time < 0) {
            return NULL; /* no sound message has it, and the difference might not fit */
        }
        newest = time > newest ? time : newest;
        int64_t body = size_of_body(&message, time - base, i);
        total += varint_size(zigzag(body)) + body;
        if (body > MOST_BYTES || total > FAR) {
            return NULL;
        }
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (data == NULL) {
        return NULL;
    }
    uint8_t *to = (uint8_t *)PyBytes_AS_STRING(data);
    for (Py_ssize_t i = 0; i < count; i++) {
        read(state, items[i], &message);
        to = write_record(to, &message, (message.has_time ? message.time : -1) - base, i);
    }
    PyObject *parts[] = {data, PyLong_FromLongLong(base), PyLong_FromLongLong(newest)};
    return tuple_of(state->parts[CLASS_RECORDS], 3, parts);
}

/* Return whether there is one argument, by place, a list or tuple. */
static bool
is_list_or_tuple(PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    return count == 1 && keywords == NULL && (PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0]));
}

static PyObject *
encode_payloads(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *made = NULL;
    if (is_list_or_tuple(args, count, keywords)) {
        made = encode_entries(state, args[0], read_payload);
    }
    if (made == NULL && !PyErr_Occurred()) {
        made = ask_twin(state, TWIN_ENCODE_PAYLOADS, args, count, keywords);
    }
    return made;
}

/* Encode payloads as requests of one each; return NULL without an exception if the twin has to. */
static PyObject *
encode_frames(struct state *state, PyObject *head, PyObject *payloads)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(payloads);
    PyObject **items = PySequence_Fast_ITEMS(payloads);
    int64_t beside = PyBytes_GET_SIZE(head) + 2 * LENGTH_BYTES, total = 0;
    struct message message;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!read_payload(state, items[i], &message)) {
            return NULL;
        }
        int64_t size = beside + size_of_entry(&message);
        total += size;
        if (size > MOST_BYTES || total > FAR) {
            return NULL;
        }
    }
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (data == NULL) {
        return NULL;
    }
    uint8_t *to = (uint8_t *)PyBytes_AS_STRING(data);
    for (Py_ssize_t i = 0; i < count; i++) {
        read_payload(state, items[i], &message);
        int64_t entry = size_of_entry(&message);
        to = write_u32(to, (uint32_t)(beside - LENGTH_BYTES + entry));
        to = write_bytes(to, PyBytes_AS_STRING(head), (size_t)PyBytes_GET_SIZE(head));
        to = write_u32(to, (uint32_t)entry);
        to = write_entry(to, &message);
    }
    return data;
}

static PyObject *
encode_payload_frames(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *made = NULL;
    if (count == 2 && PyBytes_CheckExact(args[0]) && is_list_or_tuple(args + 1, 1, keywords)) {
        made = encode_frames(state, args[0], args[1]);
    }
    if (made == NULL && !PyErr_Occurred()) {
        made = ask_twin(state, TWIN_ENCODE_PAYLOAD_FRAMES, args, count, keywords);
    }
    return made;
}

static PyObject *
encode_payload_records(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *made = NULL;
    if (is_list_or_tuple(args, count, keywords)) {
        made = encode_all_records(state, args[0], read_payload);
    }
    if (made == NULL && !PyErr_Occurred()) {
        made = ask_twin(state, TWIN_ENCODE_PAYLOAD_RECORDS, args, count, keywords);
    }
    return made;
}

static PyObject *
encode_records(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *made = NULL;
    if (is_list_or_tuple(args, count, keywords)) {
        made = encode_all_records(state, args[0], read_message);
    }
    if (made == NULL && !PyErr_Occurred()) {
        made = ask_twin(state, TWIN_ENCODE_RECORDS, args, count, keywords);
    }
    return made;
}

/* ---- decode_set ---- */

struct decoding {
    struct state *state;
    PyObject *data, *topic, *partition; /* borrowed */
    PyObject *messages;                 /* owned */
    PyObject *opened;                   /* owned: the batch that is not finished, NULL for none */
    PyObject *position;                 /* owned: `here` as an object, NULL while it has not been needed */
    struct known_headers known;
    /* The last index at which an entry can begin whole. */
    int64_t whole;
    int64_t at, here, limit, left_bytes, entries, gaps, gap_bytes;
    int64_t max_decompressed, max_messages;
};

enum { NEXT, FINISHED, REST, FAILED };

/* Append a message with these fields, whose references are taken over; return false on an exception. */
static bool
append_message(struct decoding *decoding, PyObject *payload, PyObject *key, PyObject *time, PyObject *headers,
               PyObject *here, PyObject *following)
{
    PyObject *message = NULL;
    if (payload != NULL && key != NULL && time != NULL && headers != NULL && here != NULL && following != NULL) {
        message = new_tuple(decoding->state->parts[CLASS_MESSAGE], 8);
    }
    if (message == NULL) {
        Py_XDECREF(payload);
        Py_XDECREF(key);
        Py_XDECREF(time);
        Py_XDECREF(headers);
        Py_XDECREF(here);
        Py_XDECREF(following);
        return false;
    }
    PyTuple_SET_ITEM(message, 0, payload);
    PyTuple_SET_ITEM(message, 1, key);
    PyTuple_SET_ITEM(message, 2, time);
    PyTuple_SET_ITEM(message, 3, headers);
    PyTuple_SET_ITEM(message, 4, here);
    PyTuple_SET_ITEM(message, 5, following);
    PyTuple_SET_ITEM(message, 6, Py_NewRef(decoding->topic));
    PyTuple_SET_ITEM(message, 7, Py_NewRef(decoding->partition));
    return append_new(decoding->messages, message);
}

/* Return `here` as an object; the end of one message and the begin of the next are the same one. */
static PyObject *
take_position(struct decoding *decoding, int64_t here)
{
    PyObject *position = decoding->position;
    decoding->position = NULL;
    return position == NULL ? PyLong_FromLongLong(here) : position;
}

static PyObject *
next_position(struct decoding *decoding, int64_t following)
{
    Py_XSETREF(decoding->position, PyLong_FromLongLong(following));
    return Py_XNewRef(decoding->position);
}

static PyObject *
no_headers(void)
{
    return PyTuple_New(0); /* the one empty tuple */
}

static PyObject *
time_or_none(int64_t time)
{
    return time < 0 ? new_none() : PyLong_FromLongLong(time);
}

static int
decode_payload(struct decoding *decoding, struct span entry, int64_t from, int64_t following)
{
    PyObject *here = take_position(decoding, decoding->here);
    return append_message(decoding, new_bytes(entry.data, entry.at + from, entry.stop), new_none(), new_none(),
                          no_headers(), here, next_position(decoding, following))
               ? NEXT
               : FAILED;
}

static int
decode_keyed(struct decoding *decoding, struct span entry, int64_t following)
{
    struct keyed fields;
    int result = read_all_keyed(entry, &fields, &decoding->known);
    if (result != 1) {
        return result == 0 ? REST : FAILED;
    }
    int64_t key_at = entry.at + KEY_AT;
    bool has_headers = entry.data[fields.headers_at] != 0;
    PyObject *here = take_position(decoding, decoding->here);
    return append_message(decoding,
                          fields.attributes ? new_none() : new_bytes(entry.data, fields.value_at, entry.stop),
                          fields.key_length < 0 ? new_none()
                                                : new_bytes(entry.data, key_at, key_at + fields.key_length),
                          time_or_none(fields.time),
                          has_headers ? Py_NewRef(decoding->known.headers) : no_headers(), here,
                          next_position(decoding, following))
               ? NEXT
               : FAILED;
}

/* The records of a batch while they are taken: what OpenBatch holds, whose fields have the same names. */
struct records {
    const uint8_t *data;
    int64_t at, end;
    int64_t count, taken, last_delta, delta;
    int64_t base_time, append_time;
    bool has_append_time;
    int64_t start, stop; /* positions */
};

/* One record, by index; sizes below 0 mean that there is none. */
struct record {
    int64_t stop, time, number, key_at, key_size, value_at, value_size, headers_at, header_count;
};

/* Read a size and pass over so many bytes; return false if they do not fit. */
static inline bool
pass_sized(const uint8_t *data, int64_t *at, int64_t stop, int64_t *begin, int64_t *size)
{
    if (!read_zigzag(data, at, stop, size) || *size < -1 || *size > stop - *at) {
        return false;
    }
    *begin = *at;
    if (*size > 0) {
        *at += *size;
    }
    return true;
}

/* Read a record whose headers, if any, still have to be read; return false if the twin has to judge it. */
static inline bool
read_record(const struct records *records, struct record *record)
{
    const uint8_t *data = records->data;
    int64_t at = records->at, size;
    if (!read_zigzag(data, &at, records->end, &size) || size < 1 || size > records->end - at) {
        return false;
    }
    int64_t stop = record->stop = at + size;
    at++; /* the attributes, of which none has a meaning */
    if (!read_zigzag(data, &at, stop, &record->time) || !read_zigzag(data, &at, stop, &record->number) ||
        !pass_sized(data, &at, stop, &record->key_at, &record->key_size) ||
        !pass_sized(data, &at, stop, &record->value_at, &record->value_size) ||
        !read_zigzag(data, &at, stop, &record->header_count)) {
        return false;
    }
    record->headers_at = at;
    if (record->header_count == 0 ? at != stop : record->header_count < 0 || record->header_count > (stop - at) / 2) {
        return false;
    }
    if (records->has_append_time) {
        record->time = records->append_time;
    }
    else if (__builtin_add_overflow(records->base_time, record->time, &record->time)) {
        return false;
    }
    return record->number > records->delta && record->number <= records->last_delta &&
           (records->taken + 1 < records->count || stop == records->end);
}

/* Return headers of a record as a new tuple; NULL without an exception if the twin has to judge them. */
static PyObject *
decode_headers_of_record(const uint8_t *data, const struct record *record)
{
    PyObject *made = PyTuple_New((Py_ssize_t)record->header_count);
    if (made == NULL) {
        return NULL;
    }
    int64_t at = record->headers_at;
    for (int64_t i = 0; i < record->header_count; i++) {
        int64_t name_at, name_size, value_at, size;
        if (!pass_sized(data, &at, record->stop, &name_at, &name_size) || name_size < 0 ||
            !pass_sized(data, &at, record->stop, &value_at, &size)) {
            Py_DECREF(made);
            return NULL;
        }
        PyObject *name = PyUnicode_DecodeUTF8((const char *)data + name_at, (Py_ssize_t)name_size, NULL);
        if (name == NULL && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            PyErr_Clear();
        }
        PyObject *value = name == NULL ? NULL : size < 0 ? new_none() : new_bytes(data, value_at, value_at + size);
        PyObject *pair = value == NULL ? NULL : PyTuple_Pack(2, name, value);
        Py_XDECREF(name);
        Py_XDECREF(value);
        if (pair == NULL) {
            Py_DECREF(made);
            return NULL;
        }
        PyTuple_SET_ITEM(made, (Py_ssize_t)i, pair);
    }
    if (at != record->stop) {
        Py_CLEAR(made);
    }
    return made;
}

/* As before, and keep them in `known`, for the next record mostly has the same. */
static PyObject *
headers_of_record(const uint8_t *data, const struct record *record, struct known_headers *known)
{
    if (record->header_count == 0) {
        return no_headers();
    }
    const uint8_t *begin = data + record->headers_at;
    int64_t size = record->stop - record->headers_at;
    /* The same bytes with another count are no sound headers, or not the same ones. */
    if (known->headers == NULL || known->size != size || PyTuple_GET_SIZE(known->headers) != record->header_count ||
        memcmp(known->bytes, begin, (size_t)size) != 0) {
        PyObject *made = decode_headers_of_record(data, record);
        if (made == NULL) {
            return NULL;
        }
        Py_XSETREF(known->headers, made);
        known->bytes = begin;
        known->size = size;
    }
    return Py_NewRef(known->headers);
}

/* Take records within the limits; return NEXT, REST at one that the twin has to judge, or FAILED. */
static int
take_records(struct decoding *decoding, struct records *records, int64_t limit, int64_t limit_bytes,
             struct known_headers *known)
{
    int64_t behind = records->stop - records->last_delta;
    int64_t last = records->at + limit_bytes;
    struct record record;
    Py_CLEAR(decoding->position); /* where compaction has removed messages, the next one begins elsewhere */
    for (; limit > 0 && records->taken < records->count && records->at < last; limit--) {
        if (!read_record(records, &record)) {
            return REST;
        }
        PyObject *headers = headers_of_record(records->data, &record, known);
        if (headers == NULL) {
            return PyErr_Occurred() ? FAILED : REST;
        }
        int64_t here = record.number ? behind + record.number - 1 : records->start;
        if (record.number != records->delta + 1) {
            Py_CLEAR(decoding->position);
        }
        PyObject *begin = take_position(decoding, here);
        if (!append_message(decoding,
                            record.value_size < 0
                                ? new_none()
                                : new_bytes(records->data, record.value_at, record.value_at + record.value_size),
                            record.key_size < 0
                                ? new_none()
                                : new_bytes(records->data, record.key_at, record.key_at + record.key_size),
                            time_or_none(record.time), headers, begin,
                            next_position(decoding, behind + record.number))) {
            return FAILED;
        }
        records->delta = record.number;
        records->at = record.stop;
        records->taken++;
    }
    return NEXT;
}

/* Read an attribute that is an int within FAR; return false if it is not, with an exception if there is none at all. */
static bool
int_attribute(PyObject *object, const char *name, int64_t *value)
{
    PyObject *found = PyObject_GetAttrString(object, name);
    bool fits = found != NULL && int_argument(found, value) && *value <= FAR && *value >= -FAR;
    Py_XDECREF(found);
    return fits;
}

/* Read the state of an OpenBatch, and return its records, a new reference; NULL if the twin has to go on with it. */
static PyObject *
read_opened(struct decoding *decoding, struct records *records)
{
    PyObject *opened = decoding->opened;
    if (!Py_IS_TYPE(opened, (PyTypeObject *)decoding->state->parts[CLASS_OPEN_BATCH])) {
        return NULL;
    }
    PyObject *time = PyObject_GetAttrString(opened, "append_time");
    PyObject *data = PyObject_GetAttrString(opened, "records");
    records->has_append_time = time != Py_None;
    records->append_time = 0;
    bool known = time != NULL && data != NULL && PyBytes_CheckExact(data) &&
                 (time == Py_None || int_argument(time, &records->append_time)) &&
                 int_attribute(opened, "start", &records->start) && int_attribute(opened, "end", &records->stop) &&
                 int_attribute(opened, "count", &records->count) &&
                 int_attribute(opened, "last_delta", &records->last_delta) &&
                 int_attribute(opened, "_taken", &records->taken) && int_attribute(opened, "_at", &records->at) &&
                 int_attribute(opened, "_delta", &records->delta) && records->at >= 0 &&
                 records->at <= PyBytes_GET_SIZE(data);
    if (known) { /* a time may be any number of 64 bits */
        PyObject *base = PyObject_GetAttrString(opened, "base_time");
        known = base != NULL && int_argument(base, &records->base_time);
        Py_XDECREF(base);
    }
    PyErr_Clear();
    Py_XDECREF(time);
    if (!known) {
        Py_XDECREF(data);
        return NULL;
    }
    records->data = (const uint8_t *)PyBytes_AS_STRING(data);
    records->end = PyBytes_GET_SIZE(data);
    return data;
}

/* Write the progress into decoding->opened; return false on an exception. */
static bool
write_opened(struct decoding *decoding, const struct records *records)
{
    const char *const names[] = {"_taken", "_at", "_delta"};
    const int64_t values[] = {records->taken, records->at, records->delta};
    for (int i = 0; i < 3; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        int failed = value == NULL ? -1 : PyObject_SetAttrString(decoding->opened, names[i], value);
        Py_XDECREF(value);
        if (failed < 0) {
            return false;
        }
    }
    return true;
}

/* Make decoding->opened of the batch in `entry`. Return NEXT; REST if it cannot be opened, of which the twin then says
 * why; FAILED for any other exception. */
static int
open_entry(struct decoding *decoding, struct span entry)
{
    decoding->opened = PyObject_CallFunction(
        decoding->state->parts[OPEN_BATCH], "OLLLLL", decoding->data, (long long)entry.at, (long long)decoding->here,
        (long long)(decoding->here + entry.stop - entry.at), (long long)decoding->max_decompressed,
        (long long)decoding->max_messages);
    if (decoding->opened != NULL) {
        return NEXT;
    }
    if (PyErr_ExceptionMatches(decoding->state->parts[CORRUPT_MESSAGE]) ||
        PyErr_ExceptionMatches(decoding->state->parts[WRAPPER_TOO_LARGE])) {
        PyErr_Clear();
        return REST;
    }
    return FAILED;
}

/* Let OpenBatch take the rest of a slice, of which `taken` messages are there already. */
static int
take_by_twin(struct decoding *decoding, struct records *records, int64_t limit, int64_t limit_bytes, int64_t taken)
{
    if (!write_opened(decoding, records)) {
        return FAILED;
    }
    PyObject *found = PyObject_CallMethod(decoding->opened, "take", "LLiOO", (long long)limit, (long long)limit_bytes,
                                          -1, decoding->topic, decoding->partition);
    if (found == NULL) {
        if (!PyErr_ExceptionMatches(decoding->state->parts[CORRUPT_MESSAGE])) {
            return FAILED;
        }
        PyErr_Clear();
        /* Messages before an invalid record are returned first, and the next call begins with that record. */
        return taken > 0 ? NEXT : REST;
    }
    PyObject *more;
    long long size;
    int result = FAILED;
    if (PyArg_ParseTuple(found, "O!L", &PyList_Type, &more, &size)) {
        Py_ssize_t before = PyList_GET_SIZE(decoding->messages);
        if (PyList_SetSlice(decoding->messages, before, before, more) == 0 &&
            int_attribute(decoding->opened, "_taken", &records->taken) &&
            int_attribute(decoding->opened, "_at", &records->at) &&
            int_attribute(decoding->opened, "_delta", &records->delta)) {
            result = NEXT;
        }
        else if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_SystemError, "OpenBatch.take has left an impossible state");
        }
    }
    Py_DECREF(found);
    return result;
}

/* Decode the batch in `entry`, or a slice of it. */
static int
decode_batch(struct decoding *decoding, struct span entry)
{
    struct records records = {.delta = -1};
    PyObject *owner = NULL; /* of the records, where they are not those in the entry */
    int result;
    if (decoding->opened == NULL) {
        struct batch batch;
        int64_t size = entry.stop - entry.at;
        if (!read_batch(entry, &batch) || batch.count > decoding->max_messages || batch.count <= 0 ||
            batch.count - 1 > batch.last_delta || batch.last_delta >= size) {
            return REST;
        }
        if ((batch.attributes & BATCH_CODEC_MASK) == 0) {
            records.data = entry.data + entry.at + BATCH_HEAD_BYTES;
            records.end = batch.records_end - BATCH_HEAD_BYTES;
            records.count = batch.count;
            records.last_delta = batch.last_delta;
            records.base_time = batch.base_time;
            records.append_time = batch.max_time;
            records.has_append_time = (batch.attributes & 0x08) != 0;
            records.start = decoding->here;
            records.stop = decoding->here + size;
        }
        else {
            result = open_entry(decoding, entry);
            if (result != NEXT) {
                return result;
            }
        }
    }
    if (decoding->opened != NULL) {
        owner = read_opened(decoding, &records);
        if (owner == NULL) {
            return REST;
        }
    }
    int64_t begin = records.at, before = records.taken;
    int64_t limit = decoding->limit - PyList_GET_SIZE(decoding->messages);
    int64_t limit_bytes = decoding->left_bytes - entry.at > 1 ? decoding->left_bytes - entry.at : 1;
    struct known_headers known = {NULL};
    result = take_records(decoding, &records, limit, limit_bytes, &known);
    Py_XDECREF(known.headers);
    bool done = records.taken >= records.count;
    if (result != FAILED && !done && decoding->opened == NULL) {
        int opened = open_entry(decoding, entry);
        /* The head was checked, so that this cannot be REST. */
        result = opened == NEXT ? result : FAILED;
        if (opened == REST) {
            PyErr_SetString(PyExc_SystemError, "a batch that was checked cannot be opened");
        }
    }
    if (result == REST) {
        int64_t taken = records.taken - before;
        result = take_by_twin(decoding, &records, limit - taken, limit_bytes - (records.at - begin), taken);
        done = records.taken >= records.count;
    }
    else if (result == NEXT && !done && !write_opened(decoding, &records)) {
        result = FAILED;
    }
    Py_XDECREF(owner);
    if (result != NEXT) {
        return result;
    }
    Py_CLEAR(decoding->position);
    if (!done) {
        decoding->here = records.delta < 0 ? records.start : records.stop - records.last_delta + records.delta;
        return FINISHED;
    }
    Py_CLEAR(decoding->opened);
    decoding->left_bytes -= records.at - begin;
    if (decoding->left_bytes < entry.stop || decoding->whole < entry.stop ||
        PyList_GET_SIZE(decoding->messages) >= decoding->limit) {
        decoding->here += entry.stop - entry.at;
        decoding->at = entry.stop;
        return FINISHED;
    }
    return NEXT;
}

static int
decode_entry(struct decoding *decoding, struct span entry)
{
    const uint8_t *head = entry.data + entry.at;
    int64_t length = entry.stop - entry.at - LENGTH_BYTES;
    int64_t following = decoding->here + entry.stop - entry.at;
    if (decoding->opened != NULL && head[4] != BATCH) {
        return REST;
    }
    switch (head[4]) {
    case PLAIN:
        return sum_holds(entry, 5, HEAD_BYTES) ? decode_payload(decoding, entry, HEAD_BYTES, following) : REST;
    case KEYED:
        if (length < KEYED_MINIMUM || !sum_holds(entry, 5, HEAD_BYTES)) {
            return REST;
        }
        return decode_keyed(decoding, entry, following);
    case WRAPPER:
        if (length < WRAPPER_MINIMUM || (head[5] & CODEC_MASK) != 0 || !sum_holds(entry, 6, WRAPPER_HEAD_BYTES)) {
            return REST;
        }
        return decode_payload(decoding, entry, WRAPPER_HEAD_BYTES, following);
    case BATCH:
        return decode_batch(decoding, entry);
    case GAP:
        if (!gap_holds(head)) {
            return REST;
        }
        decoding->gaps++;
        decoding->gap_bytes += entry.stop - entry.at;
        Py_CLEAR(decoding->position);
        return NEXT;
    default:
        return REST;
    }
}

/* Decode entries up to a limit, the end, or one that the twin has to judge; return FINISHED, REST or FAILED. */
static int
decode_entries(struct decoding *decoding, const uint8_t *data, int64_t size)
{
    decoding->whole = size - HEAD_BYTES;
    while (decoding->entries < decoding->limit) {
        int64_t at = decoding->at;
        if (at > decoding->left_bytes || at > decoding->whole) {
            return decoding->whole < at && at < size ? REST : FINISHED;
        }
        int64_t length = read_i32(data + at);
        struct span entry = {data, at, at + LENGTH_BYTES + length};
        if (length < PLAIN_MINIMUM || entry.stop > size) {
            return REST; /* also a gap whose head is here */
        }
        int result = decode_entry(decoding, entry);
        if (result != NEXT) {
            return result;
        }
        decoding->here += entry.stop - at;
        decoding->at = entry.stop;
        decoding->entries++;
    }
    return FINISHED;
}

static PyObject *
decoded_of(struct decoding *decoding)
{
    PyObject *items[] = {
        Py_NewRef(decoding->messages),
        PyLong_FromLongLong(decoding->here),
        PyLong_FromLongLong(decoding->at),
        PyLong_FromLongLong(decoding->gaps),
        PyLong_FromLongLong(decoding->gap_bytes),
        new_none(),
        PyLong_FromLong(-1),
        PyLong_FromLong(0),
        decoding->opened == NULL ? new_none() : Py_NewRef(decoding->opened),
    };
    return tuple_of(decoding->state->parts[CLASS_DECODED], 9, items);
}

/* Let the twin decode from decoding->at on, behind the messages that are there already. */
static PyObject *
decode_rest(struct decoding *decoding)
{
    PyObject *rest = PyObject_CallFunction(
        decoding->state->parts[DECODE_REST], "OLLiOOLL(LL)OOL", decoding->data, (long long)decoding->here,
        (long long)decoding->at, -1, decoding->topic, decoding->partition, (long long)decoding->limit,
        (long long)(decoding->left_bytes - decoding->at), (long long)decoding->max_decompressed,
        (long long)decoding->max_messages, decoding->opened == NULL ? Py_None : decoding->opened, decoding->messages,
        (long long)decoding->entries);
    if (rest == NULL || decoding->gaps == 0) {
        return rest;
    }
    if (!PyTuple_Check(rest) || PyTuple_GET_SIZE(rest) != 9) {
        PyErr_SetString(PyExc_SystemError, "decode_rest has to return a Decoded");
        Py_DECREF(rest);
        return NULL;
    }
    PyObject *items[9];
    for (int i = 0; i < 9; i++) {
        items[i] = Py_NewRef(PyTuple_GET_ITEM(rest, i));
    }
    const int64_t more[] = {decoding->gaps, decoding->gap_bytes};
    for (int i = 0; i < 2; i++) {
        int64_t found = 0;
        int_argument(items[3 + i], &found);
        Py_SETREF(items[3 + i], PyLong_FromLongLong(found + more[i]));
    }
    Py_DECREF(rest);
    return tuple_of(decoding->state->parts[CLASS_DECODED], 9, items);
}

/* Below, the pause of the collector costs more than it saves. */
#define PAUSE_COLLECTOR_BYTES 8192

static PyObject *
decode_set(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data",  "position",    "begin",            "start_at",
                                        "topic", "partition",   "limit",            "limit_bytes",
                                        "max_decompressed", "max_decompressed_messages", "opened"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[11] = {NULL};
    struct decoding decoding = {.state = state, .limit = FAR};
    int64_t start_at = -1, limit_bytes = 0;
    if (!place_arguments(names, 11, 2, args, count, keywords, given) || given[0] == NULL ||
        !PyBytes_CheckExact(given[0]) || !int_argument(given[1], &decoding.here) ||
        !int_argument(given[2], &decoding.at) || !int_argument(given[3], &start_at) ||
        !limit_argument(given[6], &decoding.limit) ||
        !limit_argument(given[7] == NULL ? state->parts[DEFAULT_DECOMPRESSED] : given[7], &limit_bytes) ||
        !limit_argument(given[8] == NULL ? state->parts[DEFAULT_DECOMPRESSED] : given[8],
                        &decoding.max_decompressed) ||
        !limit_argument(given[9] == NULL ? state->parts[DEFAULT_MESSAGES] : given[9], &decoding.max_messages)) {
        return ask_twin(state, TWIN_DECODE_SET, args, count, keywords);
    }
    int64_t size = PyBytes_GET_SIZE(given[0]);
    PyObject *minus_one = NULL;
    /* The topic and the partition go into messages that the collector does not know: only atoms may be in them. */
    if (start_at > decoding.here || decoding.here > FAR || decoding.here < 0 || decoding.at < 0 || decoding.at > size ||
        limit_bytes < 0 || decoding.limit < 1 ||
        (given[4] != NULL && given[4] != Py_None && !PyUnicode_CheckExact(given[4])) ||
        (given[5] != NULL && !PyLong_CheckExact(given[5]))) {
        return ask_twin(state, TWIN_DECODE_SET, args, count, keywords);
    }
    if (given[5] == NULL && (minus_one = PyLong_FromLong(-1)) == NULL) {
        return NULL;
    }
    decoding.data = given[0];
    decoding.topic = given[4] == NULL ? Py_None : given[4];
    decoding.partition = given[5] == NULL ? minus_one : given[5];
    decoding.opened = given[10] == Py_None ? NULL : Py_XNewRef(given[10]);
    decoding.left_bytes = decoding.at + limit_bytes;
    decoding.messages = PyList_New(0);
    PyObject *made = NULL;
    /* The collector would only look at objects that are all alive. */
    bool paused = (size - decoding.at > PAUSE_COLLECTOR_BYTES || decoding.opened != NULL) && PyGC_Disable();
    if (decoding.messages != NULL) {
        int result = decode_entries(&decoding, (const uint8_t *)PyBytes_AS_STRING(given[0]), size);
        if (result != FAILED) {
            made = result == FINISHED ? decoded_of(&decoding) : decode_rest(&decoding);
        }
    }
    if (paused) {
        PyGC_Enable();
    }
    Py_XDECREF(decoding.messages);
    Py_XDECREF(decoding.opened);
    Py_XDECREF(decoding.position);
    Py_XDECREF(decoding.known.headers);
    Py_XDECREF(minus_one);
    return made;
}

/* ---- columns_of_set ---- */

/* No column gets more bytes than this, and one message of no more, so that 31 bits hold every offset. */
#define MOST_COLUMN_BYTES (((int64_t)1 << 30) - 1)

/* A bytes object that grows: `size` bytes of it are written. */
struct buffer {
    PyObject *object; /* owned; NULL before the first byte */
    int64_t size;
};

/* Return the place for so many further bytes, which count as written; NULL with an exception if memory is short. */
static inline uint8_t *
extend(struct buffer *buffer, int64_t more)
{
    int64_t room = buffer->object == NULL ? -1 : PyBytes_GET_SIZE(buffer->object);
    int64_t needed = buffer->size + more;
    if (needed > room) {
        int64_t wanted = needed > 2 * room ? needed : 2 * room;
        if (buffer->object == NULL) {
            buffer->object = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(wanted > 64 ? wanted : 64));
        }
        else if (_PyBytes_Resize(&buffer->object, (Py_ssize_t)wanted) < 0) {
            return NULL;
        }
        if (buffer->object == NULL) {
            return NULL;
        }
    }
    uint8_t *place = (uint8_t *)PyBytes_AS_STRING(buffer->object) + buffer->size;
    buffer->size = needed;
    return place;
}

static inline bool
extend_by(struct buffer *buffer, const void *bytes, int64_t size)
{
    uint8_t *place = extend(buffer, size);
    if (place == NULL) {
        return false;
    }
    memcpy(place, bytes, (size_t)size);
    return true;
}

/* Hand over what was written as a bytes object; NULL with an exception if memory is short. */
static PyObject *
take_buffer(struct buffer *buffer)
{
    if (extend(buffer, 0) == NULL || _PyBytes_Resize(&buffer->object, (Py_ssize_t)buffer->size) < 0) {
        return NULL;
    }
    PyObject *taken = buffer->object;
    buffer->object = NULL;
    return taken;
}

/* Byte strings as BinaryColumn has them. */
struct column {
    struct buffer data, offsets, valid;
    bool used, has_nulls;
};

/* Begin a column whose first `count` items are missing. */
static bool
begin_column(struct column *column, int64_t count)
{
    int64_t bits = (count + 7) / 8;
    uint8_t *offsets = extend(&column->offsets, (count + 1) * 4), *valid = NULL;
    if (offsets == NULL || (count > 0 && (valid = extend(&column->valid, bits)) == NULL)) {
        return false;
    }
    memset(offsets, 0, (size_t)(count + 1) * 4);
    if (count > 0) {
        memset(valid, 0, (size_t)bits);
        column->has_nulls = true;
    }
    column->used = true;
    return true;
}

/* Append item number `count`, missing if its size is below 0. */
static inline bool
append_item(struct column *column, int64_t count, const uint8_t *bytes, int64_t size)
{
    if (size > 0 && !extend_by(&column->data, bytes, size)) {
        return false;
    }
    if (size < 0 && !column->has_nulls) {
        int64_t bits = (count + 7) / 8;
        uint8_t *valid = extend(&column->valid, bits);
        if (valid == NULL) {
            return false;
        }
        memset(valid, 0xFF, (size_t)bits);
        if (count % 8 > 0) {
            valid[bits - 1] = (uint8_t)((1 << count % 8) - 1);
        }
        column->has_nulls = true;
    }
    if (column->has_nulls) {
        if (count % 8 == 0) {
            uint8_t *next = extend(&column->valid, 1);
            if (next == NULL) {
                return false;
            }
            *next = 0;
        }
        if (size >= 0) {
            PyBytes_AS_STRING(column->valid.object)[count / 8] |= (char)(1 << count % 8);
        }
    }
    int32_t end = (int32_t)column->data.size;
    return extend_by(&column->offsets, &end, 4);
}

/* Hand over a column as a BinaryColumn; None if it is not used. */
static PyObject *
take_column(struct state *state, struct column *column)
{
    if (!column->used) {
        return new_none();
    }
    PyObject *items[] = {
        take_buffer(&column->data),
        take_buffer(&column->offsets),
        column->has_nulls ? take_buffer(&column->valid) : new_none(),
    };
    return tuple_of(state->parts[CLASS_BINARY_COLUMN], 3, items);
}

static void
drop_column(struct column *column)
{
    Py_CLEAR(column->data.object);
    Py_CLEAR(column->offsets.object);
    Py_CLEAR(column->valid.object);
}

struct columns {
    struct decoding decoding; /* of which the place, the bounds and the opened batch are used */
    struct column values, keys;
    struct buffer times, ids, nexts;
    PyObject *headers; /* owned; NULL while no message has any */
    int64_t count, size, limit, limit_bytes;
    bool include_values, has_times;
};

/* A message as its columns need it; sizes below 0 mean that there is none. */
struct row {
    const uint8_t *key, *value;
    int64_t key_size, value_size, time, here, following;
    PyObject *headers; /* borrowed; NULL for none */
};

static bool
append_time(struct columns *columns, int64_t time)
{
    if (time >= 0 && !columns->has_times) {
        uint8_t *before = extend(&columns->times, columns->count * 8);
        if (before == NULL) {
            return false;
        }
        memset(before, 0xFF, (size_t)columns->count * 8); /* -1 each */
        columns->has_times = true;
    }
    if (time < 0) {
        time = -1;
    }
    return !columns->has_times || extend_by(&columns->times, &time, 8);
}

static bool
append_headers(struct columns *columns, PyObject *headers)
{
    bool any = headers != NULL && PyTuple_GET_SIZE(headers) > 0;
    if (any && columns->headers == NULL) {
        columns->headers = PyList_New(0);
        bool made = columns->headers != NULL;
        for (int64_t i = 0; made && i < columns->count; i++) {
            made = append_new(columns->headers, no_headers());
        }
        if (!made) {
            return false;
        }
    }
    return columns->headers == NULL || append_new(columns->headers, any ? Py_NewRef(headers) : no_headers());
}

static inline bool
append_row(struct columns *columns, const struct row *row)
{
    int64_t count = columns->count;
    if (columns->include_values) {
        if (row->key_size >= 0 && !columns->keys.used && !begin_column(&columns->keys, count)) {
            return false;
        }
        if ((columns->keys.used && !append_item(&columns->keys, count, row->key, row->key_size)) ||
            !append_item(&columns->values, count, row->value, row->value_size)) {
            return false;
        }
    }
    if (!append_time(columns, row->time) || !append_headers(columns, row->headers) ||
        !extend_by(&columns->ids, &row->here, 8) || !extend_by(&columns->nexts, &row->following, 8)) {
        return false;
    }
    columns->count++;
    return true;
}

/* Append a plain entry; return NEXT, FINISHED if the columns end before it, or FAILED. */
static int
plain_columns(struct columns *columns, struct span entry)
{
    if (!sum_holds(entry, 5, HEAD_BYTES)) {
        return FINISHED;
    }
    int64_t size = entry.stop - entry.at, here = columns->decoding.here;
    struct row row = {
        .key_size = -1, .value = entry.data + entry.at + HEAD_BYTES, .value_size = size - HEAD_BYTES, .time = -1,
        .here = here, .following = here + size,
    };
    return append_row(columns, &row) ? NEXT : FAILED;
}

static int
keyed_columns(struct columns *columns, struct span entry)
{
    struct keyed fields;
    if (entry.stop - entry.at - LENGTH_BYTES < KEYED_MINIMUM || entry.data[entry.at + HEAD_BYTES] != 0 ||
        !read_keyed(entry, &fields) || !sum_holds(entry, 5, HEAD_BYTES)) {
        return FINISHED;
    }
    int result = read_all_keyed(entry, &fields, &columns->decoding.known);
    if (result != 1) {
        return result == 0 ? FINISHED : FAILED;
    }
    int64_t here = columns->decoding.here;
    struct row row = {
        .key = entry.data + entry.at + KEY_AT, .key_size = fields.key_length,
        .value = entry.data + fields.value_at, .value_size = entry.stop - fields.value_at, .time = fields.time,
        .here = here, .following = here + entry.stop - entry.at,
        .headers = entry.data[fields.headers_at] != 0 ? columns->decoding.known.headers : NULL,
    };
    return append_row(columns, &row) ? NEXT : FAILED;
}

/* Append records within the limits; return NEXT, REST at one that the twin has to judge, or FAILED. */
static int
append_records(struct columns *columns, struct records *records)
{
    struct known_headers known = {NULL};
    struct record record;
    int64_t behind = records->stop - records->last_delta, begin = records->at;
    int64_t last = records->at + columns->limit_bytes - columns->size;
    int result = NEXT;
    while (columns->count < columns->limit && records->taken < records->count && records->at < last) {
        if (!read_record(records, &record)) {
            result = REST;
            break;
        }
        PyObject *headers = NULL;
        if (record.header_count > 0) {
            headers = headers_of_record(records->data, &record, &known);
            if (headers == NULL) {
                result = PyErr_Occurred() ? FAILED : REST;
                break;
            }
            Py_DECREF(headers); /* `known` keeps them */
        }
        struct row row = {
            .key = records->data + record.key_at, .key_size = record.key_size,
            .value = records->data + record.value_at, .value_size = record.value_size, .time = record.time,
            .here = record.number ? behind + record.number - 1 : records->start, .following = behind + record.number,
            .headers = headers,
        };
        if (!append_row(columns, &row)) {
            result = FAILED;
            break;
        }
        records->delta = record.number;
        records->at = record.stop;
        records->taken++;
    }
    Py_XDECREF(known.headers);
    columns->size += records->at - begin;
    return result;
}

/* Begin with the batch in `entry`: find its records, where they are not compressed, or make decoding.opened. Return NEXT,
 * FINISHED if the columns end before it, or FAILED. */
static int
begin_batch(struct columns *columns, struct span entry, struct records *records)
{
    struct decoding *decoding = &columns->decoding;
    struct batch batch;
    int64_t size = entry.stop - entry.at;
    if (!read_batch(entry, &batch) || batch.count > decoding->max_messages || batch.count <= 0 ||
        batch.count - 1 > batch.last_delta || batch.last_delta >= size) {
        return FINISHED;
    }
    if ((batch.attributes & BATCH_CODEC_MASK) != 0) {
        int result = open_entry(decoding, entry);
        return result == REST ? FINISHED : result;
    }
    records->data = entry.data + entry.at + BATCH_HEAD_BYTES;
    records->end = batch.records_end - BATCH_HEAD_BYTES;
    records->count = batch.count;
    records->last_delta = batch.last_delta;
    records->base_time = batch.base_time;
    records->append_time = batch.max_time;
    records->has_append_time = (batch.attributes & 0x08) != 0;
    records->start = decoding->here;
    records->stop = decoding->here + size;
    return NEXT;
}

/* Append messages of the batch in `entry`; return NEXT, FINISHED, REST or FAILED. */
static int
batch_columns(struct columns *columns, struct span entry, bool was_opened)
{
    struct decoding *decoding = &columns->decoding;
    struct records records = {.delta = -1};
    PyObject *owner = NULL; /* of the records, where they are not those in the entry */
    int result = was_opened ? NEXT : begin_batch(columns, entry, &records);
    if (result == NEXT && decoding->opened != NULL) {
        owner = read_opened(decoding, &records);
        result = owner == NULL ? REST : NEXT;
    }
    if (result == NEXT && records.end > MOST_COLUMN_BYTES) {
        result = FINISHED;
        if (!was_opened) {
            Py_CLEAR(decoding->opened);
        }
    }
    else if (result == NEXT) {
        result = append_records(columns, &records);
        if (result == NEXT && records.taken >= records.count) {
            Py_CLEAR(decoding->opened);
        }
        else if (result == NEXT) {
            if (decoding->opened == NULL && open_entry(decoding, entry) != NEXT) {
                if (!PyErr_Occurred()) { /* the head was checked */
                    PyErr_SetString(PyExc_SystemError, "a batch that was checked cannot be opened");
                }
                result = FAILED;
            }
            else {
                result = write_opened(decoding, &records) ? FINISHED : FAILED;
            }
        }
    }
    Py_XDECREF(owner);
    return result;
}

/* Append entries up to a limit, or the first that is another, damaged or cut; return FINISHED, REST or FAILED. */
static int
fill_columns(struct columns *columns, const uint8_t *data, int64_t size)
{
    struct decoding *decoding = &columns->decoding;
    while (columns->count < columns->limit && columns->size < columns->limit_bytes) {
        int64_t at = decoding->at;
        if (at > size - HEAD_BYTES) {
            return FINISHED;
        }
        int64_t length = read_i32(data + at);
        struct span entry = {data, at, at + LENGTH_BYTES + length};
        bool was_opened = decoding->opened != NULL;
        int result = FINISHED;
        if (entry.stop > size || length < PLAIN_MINIMUM || (was_opened && data[at + 4] != BATCH)) {
            return FINISHED;
        }
        if (data[at + 4] == BATCH) {
            /* What an opened batch holds was checked before; only its end is read again. */
            if (length < BATCH_MINIMUM) {
                return FINISHED;
            }
            result = batch_columns(columns, entry, was_opened);
        }
        else if (entry.stop - at <= MOST_COLUMN_BYTES && data[at + 4] == PLAIN) {
            result = plain_columns(columns, entry);
        }
        else if (entry.stop - at <= MOST_COLUMN_BYTES && data[at + 4] == KEYED) {
            result = keyed_columns(columns, entry);
        }
        if (result != NEXT) {
            return result;
        }
        if (data[at + 4] != BATCH) {
            columns->size += entry.stop - at;
        }
        decoding->here += entry.stop - at;
        decoding->at = entry.stop;
    }
    return FINISHED;
}

static PyObject *
take_columns(struct columns *columns)
{
    struct decoding *decoding = &columns->decoding;
    PyObject *items[] = {
        PyLong_FromLongLong(columns->count),
        take_column(decoding->state, &columns->values),
        take_column(decoding->state, &columns->keys),
        columns->has_times ? take_buffer(&columns->times) : new_none(),
        columns->headers == NULL ? new_none() : Py_NewRef(columns->headers),
        take_buffer(&columns->ids),
        take_buffer(&columns->nexts),
        PyLong_FromLongLong(decoding->at),
        PyLong_FromLongLong(columns->size),
        decoding->opened == NULL ? new_none() : Py_NewRef(decoding->opened),
    };
    return tuple_of(decoding->state->parts[CLASS_COLUMNS], 10, items);
}

static PyObject *
columns_of_set(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {
        "data",   "position",       "begin", "limit", "limit_bytes", "max_decompressed", "max_decompressed_messages",
        "opened", "include_values",
    };
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[9] = {NULL};
    struct columns columns = {.decoding = {.state = state}, .limit = FAR};
    struct decoding *decoding = &columns.decoding;
    PyObject *most = state->parts[DEFAULT_DECOMPRESSED], *messages = state->parts[DEFAULT_MESSAGES];
    if (!place_arguments(names, 9, 2, args, count, keywords, given) || given[0] == NULL ||
        !PyBytes_CheckExact(given[0]) || !int_argument(given[1], &decoding->here) ||
        !int_argument(given[2], &decoding->at) || !limit_argument(given[3], &columns.limit) ||
        !limit_argument(given[4] == NULL ? most : given[4], &columns.limit_bytes) ||
        !limit_argument(given[5] == NULL ? most : given[5], &decoding->max_decompressed) ||
        !limit_argument(given[6] == NULL ? messages : given[6], &decoding->max_messages) ||
        (given[8] != NULL && !PyBool_Check(given[8]))) {
        return ask_twin(state, TWIN_COLUMNS_OF_SET, args, count, keywords);
    }
    int64_t size = PyBytes_GET_SIZE(given[0]);
    if (decoding->here < 0 || decoding->here > FAR || decoding->at < 0 || decoding->at > size ||
        (given[7] != NULL && given[7] != Py_None &&
         Py_TYPE(given[7]) != (PyTypeObject *)state->parts[CLASS_OPEN_BATCH])) {
        return ask_twin(state, TWIN_COLUMNS_OF_SET, args, count, keywords);
    }
    decoding->data = given[0];
    decoding->opened = given[7] == Py_None ? NULL : Py_XNewRef(given[7]);
    columns.limit_bytes = columns.limit_bytes > MOST_COLUMN_BYTES ? MOST_COLUMN_BYTES : columns.limit_bytes;
    columns.include_values = given[8] != Py_False;
    PyObject *result = NULL;
    if (!columns.include_values || begin_column(&columns.values, 0)) {
        int filled = fill_columns(&columns, (const uint8_t *)PyBytes_AS_STRING(given[0]), size);
        /* A call changes an opened batch only at its end, so that the twin can begin again where this has begun. */
        result = filled == FINISHED ? take_columns(&columns)
                 : filled == REST   ? ask_twin(state, TWIN_COLUMNS_OF_SET, args, count, keywords)
                                    : NULL;
    }
    drop_column(&columns.values);
    drop_column(&columns.keys);
    Py_XDECREF(columns.times.object);
    Py_XDECREF(columns.ids.object);
    Py_XDECREF(columns.nexts.object);
    Py_XDECREF(columns.headers);
    Py_XDECREF(decoding->opened);
    Py_XDECREF(decoding->known.headers);
    return result;
}

/* ---- For clients of Kafka: batches as they are, other entries as records ---- */

static PyObject *
find_batches(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "begin", "most_bytes", "largest", "codecs", "verify"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[6] = {NULL};
    struct input input;
    int64_t at = 0, most_bytes = FAR, largest = FAR, codecs = 0xFF;
    if (!place_arguments(names, 6, 2, args, count, keywords, given) || !limit_argument(given[1], &at) ||
        !limit_argument(given[2], &most_bytes) || !limit_argument(given[3], &largest) ||
        !limit_argument(given[4], &codecs) || (given[5] != NULL && !PyBool_Check(given[5])) || at < 0 ||
        !open_input(given[0], &input)) {
        return ask_twin(state, TWIN_FIND_BATCHES, args, count, keywords);
    }
    int64_t end = at, wire_bytes = 0;
    while (input.size - at >= HEAD_BYTES) {
        const uint8_t *head = input.bytes + at;
        struct span entry = {input.bytes, at, at + LENGTH_BYTES + read_i32(head)};
        int64_t size = entry.stop - at;
        if (size < HEAD_BYTES || entry.stop > input.size) {
            break;
        }
        if (head[4] == GAP && gap_holds(head)) {
            at = entry.stop;
            continue;
        }
        int64_t records_end = head[4] == BATCH && size <= largest ? records_end_of(entry) : 0;
        if (records_end == 0 || wire_bytes + records_end > most_bytes || !(codecs >> (head[22] & BATCH_CODEC_MASK) & 1) ||
            (given[5] == Py_True && !batch_holds(head, records_end))) {
            break;
        }
        wire_bytes += records_end;
        end = at = entry.stop;
    }
    close_input(&input);
    PyObject *items[] = {PyLong_FromLongLong(at), PyLong_FromLongLong(end), PyLong_FromLongLong(wire_bytes)};
    return tuple_of(state->parts[CLASS_BATCH_RUN], 3, items);
}

/* Return the bytes of a run on the wire, and write them unless `to` is NULL; -1 for what is no run. */
static int64_t
write_run(const struct input *input, int64_t position, uint8_t *to)
{
    int64_t at = 0, sum = 0;
    while (at < input->size) {
        if (input->size - at < HEAD_BYTES) {
            return -1;
        }
        const uint8_t *head = input->bytes + at;
        int64_t size = LENGTH_BYTES + (int64_t)read_i32(head);
        if (size < HEAD_BYTES || size > input->size - at) {
            return -1;
        }
        if (head[4] != GAP || !gap_holds(head)) {
            if (head[4] != BATCH || size < BATCH_HEAD_BYTES) {
                return -1;
            }
            int64_t records_end = 12 + (int64_t)read_i32(head + 8);
            if (records_end < BATCH_HEAD_BYTES || records_end > size) {
                return -1;
            }
            if (to != NULL) {
                uint64_t base = (uint64_t)(position + at + size - read_i32(head + 23) - 1);
                to = write_u32(write_u32(to, (uint32_t)(base >> 32)), (uint32_t)base);
                to = write_bytes(to, head + 8, (size_t)(records_end - 8));
            }
            sum += records_end;
        }
        at += size;
    }
    return sum;
}

static PyObject *
wire_of_run(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "position"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[2] = {NULL};
    struct input input;
    int64_t position = 0;
    if (!place_arguments(names, 2, 2, args, count, keywords, given) || given[1] == NULL ||
        !int_argument(given[1], &position) || position < 0 || position > FAR || !open_input(given[0], &input)) {
        return ask_twin(state, TWIN_WIRE_OF_RUN, args, count, keywords);
    }
    int64_t size = write_run(&input, position, NULL);
    PyObject *wire = size < 0 ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (wire != NULL) {
        write_run(&input, position, (uint8_t *)PyBytes_AS_STRING(wire));
    }
    close_input(&input);
    return size < 0 ? ask_twin(state, TWIN_WIRE_OF_RUN, args, count, keywords) : wire;
}

/* The headers of a keyed entry, which were walked over before, as those of a record; return the place behind them. */
static uint8_t *
rewrite_headers(uint8_t *to, const uint8_t *data, int64_t at, int64_t stop)
{
    uint64_t count = 0, size = 0;
    read_varint(data, &at, stop, 5, &count);
    to = write_varint(to, zigzag((int64_t)count));
    for (uint64_t i = 0; i < count; i++) {
        read_varint(data, &at, stop, 5, &size);
        to = write_sized(to, (const char *)data + at, (int64_t)size);
        at += (int64_t)size;
        read_varint(data, &at, stop, 5, &size);
        if (size == 0) {
            to = write_sized(to, NULL, 0);
            continue;
        }
        to = write_sized(to, (const char *)data + at, (int64_t)size - 1);
        at += (int64_t)size - 1;
    }
    return to;
}

/* A record's numbers take at most this many bytes more than those of its entry; each header two more. */
#define BESIDE_RECORD 64

/* Write the record of an entry; return the place behind it, or NULL if the twin has to judge the entry, or *failed. */
static uint8_t *
write_record_of(struct buffer *body, struct span entry, int64_t base_time, int64_t delta, int64_t *time, bool *failed)
{
    uint8_t magic = entry.data[entry.at + 4];
    const uint8_t *data = entry.data, *key = NULL;
    const uint8_t *value = data + entry.at + (magic == WRAPPER ? WRAPPER_HEAD_BYTES : HEAD_BYTES);
    int64_t length = entry.stop - entry.at - LENGTH_BYTES, key_size = 0, value_size = data + entry.stop - value;
    int64_t headers_at = 0;
    struct keyed fields = {.time = -1};
    if (magic == KEYED) {
        int result = length < KEYED_MINIMUM ? 0 : read_all_keyed(entry, &fields, NULL);
        *failed = result < 0;
        if (result != 1) {
            return NULL;
        }
        headers_at = fields.headers_at;
        key = fields.key_length < 0 ? NULL : data + entry.at + KEY_AT;
        key_size = fields.key_length;
        value = fields.attributes != 0 ? NULL : data + fields.value_at;
        value_size = entry.stop - fields.value_at;
    }
    *time = fields.time;
    /* The body is written first, since its size stands before it. Headers take at most three times their bytes. */
    body->size = 0;
    uint8_t *begin = extend(body, 3 * length + BESIDE_RECORD), *to = begin;
    if (to == NULL) {
        *failed = true;
        return NULL;
    }
    *to++ = 0;
    to = write_varint(to, zigzag(base_time == INT64_MIN ? 0 : fields.time - base_time));
    to = write_varint(to, zigzag(delta));
    to = write_sized(to, (const char *)key, key_size);
    to = write_sized(to, (const char *)value, value_size);
    if (headers_at == 0) {
        *to++ = 0;
    }
    else {
        to = rewrite_headers(to, data, headers_at, entry.stop);
    }
    body->size = to - begin;
    return to;
}

#define MOST_DELTA INT32_MAX

/* Return whether an entry of at least HEAD_BYTES is one message, not compressed, under a checksum that holds. */
static bool
is_one_message(struct span entry)
{
    const uint8_t *head = entry.data + entry.at;
    if (head[4] == PLAIN || head[4] == KEYED) {
        return sum_holds(entry, 5, HEAD_BYTES);
    }
    return head[4] == WRAPPER && entry.stop - entry.at >= WRAPPER_HEAD_BYTES && (head[5] & CODEC_MASK) == 0 &&
           sum_holds(entry, 6, WRAPPER_HEAD_BYTES);
}

static PyObject *
records_of_set(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "position", "base_offset", "begin", "until", "limit"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[6] = {NULL};
    int64_t position = 0, base_offset = 0, at = 0, until = FAR, limit = FAR;
    if (!place_arguments(names, 6, 3, args, count, keywords, given) || given[0] == NULL || given[1] == NULL ||
        given[2] == NULL || !PyBytes_CheckExact(given[0]) || !int_argument(given[1], &position) ||
        !int_argument(given[2], &base_offset) || !limit_argument(given[3], &at) || !limit_argument(given[4], &until) ||
        !limit_argument(given[5], &limit) || position < 0 || position > FAR || base_offset < 0 || base_offset > FAR ||
        at < 0 || PyBytes_GET_SIZE(given[0]) > MOST_BYTES / 4) {
        return ask_twin(state, TWIN_RECORDS_OF_SET, args, count, keywords);
    }
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(given[0]);
    int64_t size = PyBytes_GET_SIZE(given[0]), made = 0, base_time = INT64_MIN, newest = -1, time;
    struct buffer records = {NULL, 0}, body = {NULL, 0};
    bool failed = false;
    while (at < until && made < limit && size - at >= HEAD_BYTES) {
        struct span entry = {data, at, at + LENGTH_BYTES + read_i32(data + at)};
        int64_t delta = position + entry.stop - 1 - base_offset;
        if (entry.stop - at < HEAD_BYTES || entry.stop > size || delta < 0 || delta > MOST_DELTA ||
            !is_one_message(entry)) {
            break;
        }
        if (write_record_of(&body, entry, base_time, delta, &time, &failed) == NULL) {
            break;
        }
        uint8_t *to = extend(&records, varint_size(zigzag(body.size)) + body.size);
        if (to == NULL) {
            failed = true;
            break;
        }
        to = write_varint(to, zigzag(body.size));
        memcpy(to, PyBytes_AS_STRING(body.object), (size_t)body.size);
        if (made == 0) {
            base_time = newest = time;
        }
        newest = time > newest ? time : newest;
        made++;
        at = entry.stop;
    }
    PyObject *result = NULL;
    if (!failed) {
        PyObject *items[] = {PyLong_FromLongLong(at), PyLong_FromLongLong(made), take_buffer(&records),
                             PyLong_FromLongLong(made == 0 ? -1 : base_time), PyLong_FromLongLong(newest)};
        result = tuple_of(state->parts[CLASS_MADE_RECORDS], 5, items);
    }
    Py_XDECREF(records.object);
    Py_XDECREF(body.object);
    return result;
}

/* ---- Lengths ---- */

/* Return whether the entry at `at`, of which at least HEAD_BYTES are there, has a complete and possible head; *time is
 * the newest time in it. */
static bool
head_of_entry(const uint8_t *data, int64_t size, int64_t at, int64_t length, int64_t *time)
{
    *time = -1;
    switch (data[at + 4]) {
    case PLAIN:
    case GAP:
        return length >= PLAIN_MINIMUM;
    case WRAPPER:
        return length >= WRAPPER_MINIMUM && at + WRAPPER_HEAD_BYTES <= size;
    case KEYED:
        if (length < KEYED_MINIMUM || at + KEY_AT > size) {
            return false;
        }
        *time = read_i64(data + at + 10);
        return true;
    case BATCH:
        if (length < BATCH_MINIMUM || at + BATCH_HEAD_BYTES > size) {
            return false;
        }
        *time = read_i64(data + at + 35);
        return true;
    default:
        return false;
    }
}

static PyObject *
heads_of_set(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "begin"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[2] = {NULL};
    struct input input;
    int64_t at = 0;
    if (!place_arguments(names, 2, 2, args, count, keywords, given) || !limit_argument(given[1], &at) || at < 0 ||
        !open_input(given[0], &input)) {
        return ask_twin(state, TWIN_HEADS_OF_SET, args, count, keywords);
    }
    PyObject *heads = PyList_New(0);
    while (heads != NULL && at <= input.size - HEAD_BYTES) {
        int64_t length = read_i32(input.bytes + at), time;
        if (!head_of_entry(input.bytes, input.size, at, length, &time)) {
            break;
        }
        if (!append_new(heads, Py_BuildValue("LLL", (long long)at, (long long)(LENGTH_BYTES + length), (long long)time))) {
            Py_CLEAR(heads);
        }
        at += LENGTH_BYTES + length;
    }
    if (heads != NULL && at <= input.size - HEAD_BYTES) {
        /* A damaged head, or one of a magic that only the table of layouts knows. */
        PyObject *rest = PyObject_CallFunction(state->parts[TWIN_HEADS_OF_SET], "OL", given[0], (long long)at);
        Py_ssize_t size = PyList_GET_SIZE(heads);
        if (rest == NULL || PyList_SetSlice(heads, size, size, rest) < 0) {
            Py_CLEAR(heads);
        }
        Py_XDECREF(rest);
    }
    close_input(&input);
    return heads;
}

static PyObject *
ends_of_set(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "begin"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[2] = {NULL};
    struct input input;
    int64_t at = 0;
    if (!place_arguments(names, 2, 2, args, count, keywords, given) || !limit_argument(given[1], &at) || at < 0 ||
        !open_input(given[0], &input)) {
        return ask_twin(state, TWIN_ENDS_OF_SET, args, count, keywords);
    }
    PyObject *ends = PyList_New(0);
    while (ends != NULL && at <= input.size - LENGTH_BYTES) {
        int64_t length = read_i32(input.bytes + at);
        if (length < PLAIN_MINIMUM) {
            break;
        }
        at += LENGTH_BYTES + length;
        if (!append_new(ends, PyLong_FromLongLong(at))) {
            Py_CLEAR(ends);
        }
    }
    close_input(&input);
    return ends;
}

static PyObject *
slice_end(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "at", "most_entries", "most_bytes"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[4] = {NULL};
    struct input input;
    int64_t at = 0, most_entries = 0, most_bytes = 0;
    if (!place_arguments(names, 4, 4, args, count, keywords, given) || given[1] == NULL || given[2] == NULL ||
        given[3] == NULL || !limit_argument(given[1], &at) || !limit_argument(given[2], &most_entries) ||
        !limit_argument(given[3], &most_bytes) || at < 0 || !open_input(given[0], &input)) {
        return ask_twin(state, TWIN_SLICE_END, args, count, keywords);
    }
    int64_t last = input.size - LENGTH_BYTES;
    int64_t far = at + most_bytes < last ? at + most_bytes : last;
    bool valid = true;
    for (; valid && most_entries > 0 && at <= far; most_entries--) {
        int64_t length = read_i32(input.bytes + at);
        valid = length > 0;
        at += LENGTH_BYTES + length;
    }
    close_input(&input);
    return PyLong_FromLongLong(valid && at <= last ? at : input.size);
}

/* ---- join_frames ---- */

/* Return whether the entries from at on, by their lengths, end at stop. */
static inline bool
is_whole(const uint8_t *data, int64_t at, int64_t stop)
{
    while (stop - at >= HEAD_BYTES) {
        int64_t length = read_i32(data + at);
        if (length < PLAIN_MINIMUM) {
            return false;
        }
        at += LENGTH_BYTES + length;
    }
    return at == stop;
}

/* Return the index behind the frame at an index that has the head before its set, or -1 if it cannot be joined. */
static inline int64_t
end_of_frame(const struct input *input, int64_t at, const uint8_t *head, int64_t head_bytes, int64_t frame_bytes)
{
    int64_t first = at + LENGTH_BYTES + head_bytes + LENGTH_BYTES;
    if (first > input->size) {
        return -1;
    }
    const uint8_t *data = input->bytes;
    int64_t size = read_i32(data + at), stop = at + LENGTH_BYTES + size;
    if (size > frame_bytes || first >= stop || stop > input->size ||
        memcmp(data + at + LENGTH_BYTES, head, (size_t)head_bytes) != 0 ||
        read_i32(data + first - LENGTH_BYTES) != stop - first || !is_whole(data, first, stop)) {
        return -1;
    }
    return stop;
}

static PyObject *
join_frames(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"data", "begin", "head_bytes", "frame_bytes", "most"};
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *given[5] = {NULL};
    struct input input;
    int64_t begin = 0, head_bytes = 0, frame_bytes = 0, most = 0;
    if (!place_arguments(names, 5, 5, args, count, keywords, given) || given[1] == NULL || given[2] == NULL ||
        given[3] == NULL || given[4] == NULL || !limit_argument(given[1], &begin) ||
        !limit_argument(given[2], &head_bytes) || !limit_argument(given[3], &frame_bytes) ||
        !limit_argument(given[4], &most) || begin < 0 || head_bytes < 0 || !open_input(given[0], &input)) {
        return ask_twin(state, TWIN_JOIN_FRAMES, args, count, keywords);
    }
    int64_t beside = LENGTH_BYTES + head_bytes + LENGTH_BYTES, frames = 0, stop = begin, next;
    if (begin + beside <= input.size) {
        const uint8_t *head = input.bytes + begin + LENGTH_BYTES;
        while (frames < most && (next = end_of_frame(&input, stop, head, head_bytes, frame_bytes)) >= 0) {
            stop = next;
            frames++;
        }
    }
    if (frames < 2) {
        close_input(&input);
        Py_RETURN_NONE;
    }
    PyObject *sets = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(stop - begin - frames * beside));
    PyObject *sizes = PyList_New((Py_ssize_t)frames);
    if (sets != NULL && sizes != NULL) {
        uint8_t *to = (uint8_t *)PyBytes_AS_STRING(sets);
        int64_t at = begin;
        for (Py_ssize_t i = 0; i < frames; i++) {
            int64_t set_bytes = read_i32(input.bytes + at + beside - LENGTH_BYTES);
            PyObject *size = PyLong_FromLongLong(set_bytes);
            if (size == NULL) {
                Py_CLEAR(sizes);
                break;
            }
            PyList_SET_ITEM(sizes, i, size);
            to = write_bytes(to, input.bytes + at + beside, (size_t)set_bytes);
            at += beside + set_bytes;
        }
    }
    close_input(&input);
    PyObject *items[] = {PyLong_FromLongLong(stop), sets, sizes};
    return tuple_of(state->parts[CLASS_JOINED_FRAMES], 3, items);
}

/* ---- The module ---- */

static PyObject *
set_up(PyObject *module, PyObject *given)
{
    struct state *state = PyModule_GetState(module);
    if (!PyDict_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "set_up takes a dict of names and objects");
        return NULL;
    }
    for (int i = 0; i < PARTS; i++) {
        PyObject *part = PyDict_GetItemString(given, PART_NAMES[i]);
        if (part == NULL) {
            PyErr_Format(PyExc_KeyError, "set_up is given no %s", PART_NAMES[i]);
            return NULL;
        }
        bool is_class = i <= CLASS_OPEN_BATCH;
        bool is_tuple = i <= CLASS_MADE_RECORDS; /* allocated here as tuples: nothing may be added to one */
        if ((is_class && !PyType_Check(part)) ||
            (is_tuple && (!PyType_IsSubtype((PyTypeObject *)part, &PyTuple_Type) ||
                          ((PyTypeObject *)part)->tp_basicsize != PyTuple_Type.tp_basicsize))) {
            PyErr_Format(PyExc_TypeError, "%s is not of the kind that the compiled loops make", PART_NAMES[i]);
            return NULL;
        }
        Py_INCREF(part);
        Py_XSETREF(state->parts[i], part);
    }
    state->ready = true;
    Py_RETURN_NONE;
}

/* ---- Summaries ---- */

/* Return what messages, a tuple, have in common; NULL without an exception if the twin has to. */
static PyObject *
summary_of(struct state *state, PyObject *messages)
{
    Py_ssize_t count = PyTuple_GET_SIZE(messages), size = 0;
    PyObject *headers = NULL;
    bool in_common = count > 0;
    int64_t least = -1, greatest = -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        struct message message = {.time = -1};
        if (!read_fields(state, PyTuple_GET_ITEM(messages, i), &message)) {
            return NULL;
        }
        size += message.payload_size + message.key_size;
        if (message.has_time) {
            greatest = message.time > greatest ? message.time : greatest;
        }
        if (!message.has_time) {
            least = -1;
        } else if (i == 0 || message.time < least) {
            least = message.time;
        }
        if (i == 0) {
            headers = message.headers;
        } else if (in_common && message.headers != headers) { /* equal ones are nearly always one object */
            int same = PyObject_RichCompareBool(message.headers, headers, Py_EQ);
            if (same < 0) {
                return NULL;
            }
            in_common = same;
        }
    }
    PyObject *parts[] = {Py_NewRef(in_common ? headers : Py_None), PyLong_FromLongLong(least),
                         PyLong_FromLongLong(greatest), PyLong_FromSsize_t(size)};
    return tuple_of(state->parts[CLASS_MESSAGE_SUMMARY], 4, parts);
}

static PyObject *
summarize_messages(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *made = NULL;
    if (is_list_or_tuple(args, count, keywords)) {
        /* A tuple of our own: a comparison of headers may run any code, which may change a list. */
        PyObject *messages = PySequence_Tuple(args[0]);
        if (messages == NULL) {
            return NULL;
        }
        made = summary_of(state, messages);
        Py_DECREF(messages);
    }
    if (made == NULL && !PyErr_Occurred()) {
        made = ask_twin(state, TWIN_SUMMARIZE_MESSAGES, args, count, keywords);
    }
    return made;
}

/* Return the bytes of all payloads and of the longest, None for other messages; NULL without an exception if the twin has to. */
static PyObject *
sizes_of_payloads(struct state *state, PyObject *messages)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(messages);
    PyObject **items = PySequence_Fast_ITEMS(messages);
    int64_t total = 0, longest = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        struct message message;
        if (!read_fields(state, items[i], &message)) {
            return NULL;
        }
        if (!is_plain(&message)) {
            Py_RETURN_NONE;
        }
        total += message.payload_size;
        longest = message.payload_size > longest ? message.payload_size : longest;
    }
    return Py_BuildValue("LL", (long long)total, (long long)longest);
}

static PyObject *
payload_sizes(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    struct state *state = state_of(module);
    if (state == NULL) {
        return NULL;
    }
    PyObject *sizes = is_list_or_tuple(args, count, keywords) ? sizes_of_payloads(state, args[0]) : NULL;
    return sizes == NULL && !PyErr_Occurred() ? ask_twin(state, TWIN_PAYLOAD_SIZES, args, count, keywords) : sizes;
}

#define LOOP(name, meaning) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL | METH_KEYWORDS, meaning}
#define CHECKSUM(name, function, meaning) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, meaning}

static PyMethodDef methods[] = {
    LOOP(check_set, "Check every entry of a set that a producer sent: see logd.protocol.loops.checking."),
    LOOP(columns_of_set, "Return messages as columns: see logd.protocol.loops.columns."),
    LOOP(decode_set, "Decode the entries of a set: see logd.protocol.loops.decoding."),
    LOOP(encode_payload_records, "Return payloads as the records of a batch: see logd.protocol.loops.batches."),
    LOOP(encode_payload_frames, "Return payloads as requests of one each: see logd.protocol.loops.encoding."),
    LOOP(encode_payloads, "Return payloads as a message set: see logd.protocol.loops.encoding."),
    LOOP(encode_records, "Return messages as the records of a batch: see logd.protocol.loops.batches."),
    LOOP(encode_set, "Return messages as a message set: see logd.protocol.loops.encoding."),
    LOOP(find_batches, "Find batches that follow one another: see logd.protocol.loops.batch_runs."),
    LOOP(ends_of_set, "Return the index behind each entry: see logd.protocol.loops.lengths."),
    LOOP(heads_of_set, "Return index, size and newest time of each entry: see logd.protocol.loops.lengths."),
    LOOP(join_frames, "Return the sets of requests as one set: see logd.protocol.loops.frames."),
    LOOP(records_of_set, "Return entries as the records of a batch: see logd.protocol.loops.record_sets."),
    LOOP(wire_of_run, "Return batches as Kafka's clients are sent them: see logd.protocol.loops.batch_runs."),
    LOOP(scan_set, "Check stored entries: see logd.protocol.loops.scanning."),
    LOOP(payload_sizes, "Return the bytes of payloads: see logd.protocol.loops.summaries."),
    LOOP(summarize_messages, "Return what messages have in common: see logd.protocol.loops.summaries."),
    LOOP(slice_end, "Return the end of a slice of a set: see logd.protocol.loops.lengths."),
    CHECKSUM("crc32", crc32_of, "Return the CRC-32 of data, continued from another if that is given."),
    CHECKSUM("crc32c", crc32c_of, "Return the CRC-32C of data, continued from another if that is given."),
    CHECKSUM("crc32_by_tables", crc32_of_tables, "Return the CRC-32 as on processors without the instructions."),
    CHECKSUM("crc32c_by_tables", crc32c_of_tables, "Return the CRC-32C as on processors without the instructions."),
    {"set_up", set_up, METH_O, "Take the classes and the functions of the twin that the loops use, by name."},
    {NULL},
};

static int
execute(PyObject *module)
{
    fill_tables(crc32_tables, 0xEDB88320);
    fill_tables(crc32c_tables, 0x82F63B78);
    struct state *state = PyModule_GetState(module);
    state->no_headers = PyTuple_New(0);
    if (state->no_headers == NULL) {
        return -1;
    }
    PyObject *source = PyLong_FromUnsignedLong(SOURCE_CRC);
    int failed = source == NULL ? -1 : PyModule_AddObjectRef(module, "SOURCE_CRC", source);
    Py_XDECREF(source);
    return failed ? -1 : PyModule_AddStringConstant(module, "CHECKSUMS_BY", choose_checksums());
}

static int
traverse(PyObject *module, visitproc visit, void *arg)
{
    struct state *state = PyModule_GetState(module);
    for (int i = 0; i < PARTS; i++) {
        Py_VISIT(state->parts[i]);
    }
    return 0;
}

static int
clear(PyObject *module)
{
    struct state *state = PyModule_GetState(module);
    state->ready = false;
    Py_CLEAR(state->no_headers);
    for (int i = 0; i < PARTS; i++) {
        Py_CLEAR(state->parts[i]);
    }
    return 0;
}

static void
release(void *module)
{
    clear(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "logd.protocol._compiled",
    .m_doc = "The loops over message sets and the checksums, compiled.",
    .m_size = sizeof(struct state),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC
PyInit__compiled(void)
{
    return PyModuleDef_Init(&definition);
}
