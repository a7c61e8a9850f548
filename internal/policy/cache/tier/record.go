package tier

import (
	"bytes"
	"encoding/binary"
	"hash/crc64"

	"github.com/klauspost/compress/zstd"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/head"
)

// A value in Redis is
//
//	"plc", version
//	flags                       is a marker, body is compressed
//	epoch, count                of the purges when its fetch began
//	key                         whole: the name in Redis is a hash of it
//	vary                        of a marker; the rest is of a response
//	tags, block, body's length  and the numbers of rules.AppendStored
//	cost                        nanoseconds
//	body
//	checksum                    CRC-64 of all that
//
// Strings have their length in front, numbers are varints. The checksum finds what was damaged or cut
// off, not what somebody has forged: who may write to this Redis decides what clients get.
const (
	version      = 1
	magic        = "plc"
	checksumSize = 8
	maxTags      = 32 // the same limit as the memory's
	maxEpoch     = 32
)

const (
	isMarker = 1 << iota
	isCompressed
)

// Record is a stored response, or a marker that says by which fields the responses for a key vary.
type Record struct {
	Key   []byte
	Epoch string // see purge.go; a purge after Count in this epoch invalidates the record
	Count int64
	Vary  []byte // of a marker; nil for a response

	Tags  [][]byte
	Block []byte
	Body  []byte
	Meta  rules.Stored
	Cost  int64 // nanoseconds
}

var table = crc64.MakeTable(crc64.ECMA)

// codec writes and reads records. Reading is for many goroutines at once, writing for one.
type codec struct {
	above   int // longer bodies are compressed; 0 for none
	longest int // body
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	packed  []byte // used again
}

func newCodec(above, longest int) (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max(longest, 1<<20))))
	return &codec{above: above, longest: longest, encoder: encoder, decoder: decoder}, err
}

func (c *codec) close() {
	c.encoder.Close()
	c.decoder.Close()
}

// append appends a record, with its age at now.
func (c *codec) append(dst []byte, r *Record, now rules.Instant) []byte {
	start := len(dst)
	flags, body := byte(0), r.Body
	switch {
	case r.Vary != nil:
		flags, body = isMarker, nil
	case c.above > 0 && len(body) > c.above && !encoded(r.Block):
		c.packed = c.encoder.EncodeAll(body, c.packed[:0])
		if len(c.packed) < len(body)-len(body)/8 {
			flags, body = isCompressed, c.packed
		}
	}
	dst = append(dst, magic...)
	dst = append(dst, version, flags)
	dst = appendString(dst, []byte(r.Epoch))
	dst = binary.AppendVarint(dst, r.Count)
	dst = appendString(dst, r.Key)
	if r.Vary != nil {
		dst = appendString(dst, r.Vary)
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(r.Tags)))
		for _, tag := range r.Tags {
			dst = appendString(dst, tag)
		}
		dst = appendString(dst, r.Block)
		dst = binary.AppendUvarint(dst, uint64(len(r.Body)))
		dst = rules.AppendStored(dst, &r.Meta, now)
		dst = binary.AppendVarint(dst, r.Cost)
		dst = append(dst, body...)
	}
	return seal(dst, start)
}

// seal appends the checksum of dst[start:].
func seal(dst []byte, start int) []byte {
	return binary.LittleEndian.AppendUint64(dst, crc64.Checksum(dst[start:], table))
}

func appendString(dst, s []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// encoded reports whether a response's content already has a coding.
func encoded(block []byte) bool {
	var fields head.List
	rules.Fields(&fields, block)
	return fields.Find(contentEncoding) != nil
}

var contentEncoding = []byte("Content-Encoding")

// read reads what append has written for a key. The record aliases b, except for a compressed body.
// The outcome is Hit if the record may be used, and otherwise says why not.
func (c *codec) read(b, key []byte, now rules.Instant) (Record, Outcome) {
	if len(b) < len(magic)+2+checksumSize || string(b[:len(magic)]) != magic {
		return Record{}, Garbage
	}
	if b[len(magic)] != version {
		return Record{}, OtherVersion
	}
	content, sum := b[:len(b)-checksumSize], b[len(b)-checksumSize:]
	if crc64.Checksum(content, table) != binary.LittleEndian.Uint64(sum) {
		return Record{}, Garbage
	}
	flags := content[len(magic)+1]
	p := parser{rest: content[len(magic)+2:]}
	var r Record
	r.Epoch = string(p.string(maxEpoch))
	r.Count = p.varint()
	r.Key = p.string(len(content))
	switch {
	case p.bad:
		return Record{}, Garbage
	case !bytes.Equal(r.Key, key):
		return Record{}, OtherKey
	}
	if flags == isMarker {
		r.Vary = p.string(maxVary)
		if p.bad || len(p.rest) > 0 || len(r.Vary) == 0 {
			return Record{}, Garbage
		}
		return r, Hit
	}
	return c.readResponse(r, &p, flags, now)
}

// maxVary is more bytes than the names of eight fields of 64 bytes each take.
const maxVary = 1 << 10

func (c *codec) readResponse(r Record, p *parser, flags byte, now rules.Instant) (Record, Outcome) {
	tags := p.uvarint()
	if tags > maxTags {
		return Record{}, Garbage
	}
	for range tags {
		r.Tags = append(r.Tags, p.string(len(p.rest)))
	}
	r.Block = p.string(rules.MaxBlock)
	length := p.uvarint()
	if p.bad {
		return Record{}, Garbage
	}
	if length > uint64(c.longest) {
		return Record{}, TooLong
	}
	var ok bool
	if r.Meta, p.rest, ok = rules.ReadStored(p.rest, now, len(r.Block)); !ok {
		return Record{}, Garbage
	}
	r.Cost = p.varint()
	switch r.Body = p.rest; flags {
	case 0:
	case isCompressed:
		body, err := c.decoder.DecodeAll(p.rest, make([]byte, 0, length))
		if err != nil {
			return Record{}, Garbage
		}
		r.Body = body
	default:
		return Record{}, Garbage
	}
	if p.bad || uint64(len(r.Body)) != length || r.Meta.Length != int64(length) || r.Cost < 0 {
		return Record{}, Garbage
	}
	return r, Hit
}

// parser reads numbers and strings. bad is set once something is missing.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) uvarint() uint64 {
	n, size := binary.Uvarint(p.rest)
	return n * p.took(size)
}

func (p *parser) varint() int64 {
	n, size := binary.Varint(p.rest)
	return n * int64(p.took(size))
}

// took skips a number of the given encoded size; it returns 0 if there was none.
func (p *parser) took(size int) uint64 {
	if size <= 0 || p.bad {
		p.bad = true
		return 0
	}
	p.rest = p.rest[size:]
	return 1
}

func (p *parser) string(most int) []byte {
	n := p.uvarint()
	if p.bad || n > uint64(min(most, len(p.rest))) {
		p.bad = true
		return nil
	}
	s := p.rest[:n:n]
	p.rest = p.rest[n:]
	return s
}
