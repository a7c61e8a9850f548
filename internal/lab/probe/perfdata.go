package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// perfData is what HotSpot keeps of its figures in a file that each JVM has, by their names: those
// that are numbers, and those that are text. The format is that of jvmstat's buffer, version 2.
type perfData struct {
	numbers map[string]int64
	texts   map[string]string
}

const (
	// maxPerfData bounds the file: it has 32 KB unless -XX:PerfDataMemorySize says otherwise.
	maxPerfData = 1 << 20
	// maxFigure bounds a figure's name, and its text.
	maxFigure = 256
	// perfHead is how long the buffer's head is, and perfEntry that of an entry.
	perfHead, perfEntry = 32, 20
)

var errPerfData = errors.New("its figures (hsperfdata) are not understood")

// parsePerfData reads the figures whose names are wanted. The file belongs to the process that is
// measured, which may write what it likes into it: no offset is believed.
func parsePerfData(data []byte, wanted func(name string) bool) (*perfData, error) {
	if len(data) < perfHead || len(data) > maxPerfData {
		return nil, errPerfData
	}
	var order binary.ByteOrder = binary.BigEndian
	switch {
	case !bytes.Equal(data[:4], []byte{0xca, 0xfe, 0xc0, 0xc0}) || data[4] > 1 || data[5] != 2:
		return nil, errPerfData
	case data[4] == 1:
		order = binary.LittleEndian
	}
	if data[7] == 0 { // not accessible yet: the JVM is starting
		return nil, nil
	}
	at, left := int64(order.Uint32(data[24:])), order.Uint32(data[28:])
	p := &perfData{map[string]int64{}, map[string]string{}}
	for ; left > 0; left-- {
		if at < perfHead || at > int64(len(data)-perfEntry) {
			return nil, errPerfData
		}
		entry := data[at:]
		length := int64(order.Uint32(entry))
		if length < perfEntry || length > int64(len(entry)) {
			return nil, errPerfData
		}
		p.add(entry[:length], order, wanted)
		at += length
	}
	return p, nil
}

// add takes one entry, where it is wanted and whole.
func (p *perfData) add(entry []byte, order binary.ByteOrder, wanted func(name string) bool) {
	name, ok := textAt(entry, int64(order.Uint32(entry[4:])), maxFigure)
	if !ok || !wanted(name) {
		return
	}
	vector, from := int64(order.Uint32(entry[8:])), int64(order.Uint32(entry[16:]))
	switch kind := entry[12]; {
	case kind == 'J' && vector == 0 && from >= perfEntry && from <= int64(len(entry)-8):
		p.numbers[name] = int64(order.Uint64(entry[from:]))
	case kind == 'B' && vector > 0:
		if text, ok := textAt(entry, from, min(vector, maxFigure)); ok {
			p.texts[name] = text
		}
	}
}

// textAt is what stands in an entry up to a zero byte, made printable: it becomes part of samples'
// names.
func textAt(entry []byte, from, most int64) (string, bool) {
	if from < perfEntry || from >= int64(len(entry)) {
		return "", false
	}
	text := entry[from:min(from+most, int64(len(entry)))]
	end := bytes.IndexByte(text, 0)
	if end < 0 {
		return "", false
	}
	return printable(string(text[:end])), true
}
