package compress

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"

	"plimsoll/internal/exchange"
)

// writer is the common interface of the libraries.
type writer interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// rung is one way to encode. Windows are of 64 KB, gzip's of its 32: with 128 and 256 KB JSON of 300 KB
// became no smaller.
type rung struct {
	memory int64 // bytes that an encoder takes, as measured in the heap after some responses
	make   func() (writer, error)
}

// rungs are the ways by coding and level. Of JSON of 20 KB remain, in the time of one core of a cloud
// machine (the best of some runs; other programs ran beside):
//
//	        fast           balanced       small
//	zstd    22.3 %  80 µs  21.3 % 110 µs  likewise: its next level takes 4.6 MB
//	br      22.1 % 190 µs  21.3 % 440 µs  19.6 % 800 µs
//	gzip    24.1 %  90 µs  21.5 % 120 µs  20.2 % 680 µs
//
// The brotli is go-brrr, which took half of the time of andybalholm/brotli at each quality, and
// allocates nothing for content up to 32 KB. Its qualities 0 and 1 are of no use here: what comes out
// up to a flush lacks the last bytes of what went in (version 1.0.1).
var rungs = [codings][levels]rung{
	zstdCoding: {zstdRung(zstd.SpeedFastest, 640<<10), zstdRung(zstd.SpeedDefault, 1664<<10),
		zstdRung(zstd.SpeedDefault, 1664<<10)},
	brotliCoding: {brotliRung(2, 736<<10), brotliRung(4, 1280<<10), brotliRung(5, 1280<<10)},
	gzipCoding:   {gzipRung(1, 832<<10), gzipRung(6, 1088<<10), gzipRung(9, 1408<<10)},
}

const windowBits = 16

func zstdRung(level zstd.EncoderLevel, memory int64) rung {
	return rung{memory, func() (writer, error) {
		// With concurrency 1 it has no goroutines.
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithWindowSize(1<<windowBits),
			zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false),
			zstd.WithZeroFrames(true))
	}}
}

func brotliRung(quality int, memory int64) rung {
	return rung{memory, func() (writer, error) {
		return brrr.NewWriterOptions(io.Discard, quality, brrr.WriterOptions{LGWin: windowBits})
	}}
}

func gzipRung(level int, memory int64) rung {
	return rung{memory, func() (writer, error) { return gzip.NewWriterLevel(io.Discard, level) }}
}

// encoder encodes the content of one response, then of another. It belongs to its loop.
type encoder struct {
	w      writer
	out    []byte // what the library has written, while Encode runs
	home   *loopEncoders
	counts *counts // of the policy that uses it
	coding coding
	level  Level
	events bool // it encodes a stream of events
}

var _ exchange.Encoder = (*encoder)(nil)

// Write takes the library's output.
func (e *encoder) Write(p []byte) (int, error) {
	e.out = append(e.out, p...)
	return len(p), nil
}

// Encode implements exchange.Encoder.
func (e *encoder) Encode(dst, src []byte, until exchange.Until) (out []byte, err error) {
	e.out = dst
	if len(src) > 0 {
		_, err = e.w.Write(src)
	}
	switch {
	case err != nil:
	case until == exchange.Flush:
		err = e.w.Flush()
	case until == exchange.Last:
		err = e.w.Close()
	}
	out, e.out = e.out, nil
	e.counts.in.Add(uint64(len(src)))
	e.counts.out.Add(uint64(len(out) - len(dst)))
	return out, err
}

// Close implements exchange.Encoder.
func (e *encoder) Close() { e.home.give(e) }
