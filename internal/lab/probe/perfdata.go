package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// perfData holds the statistics that HotSpot keeps in each JVM's file, by name: the numbers and the
// texts. The format is jvmstat's buffer, version 2.
type perfData struct {
	numbers map[string]int64
	texts   map[string]string
}

const (
	// maxPerfData bounds the file: it has 32 KB unless -XX:PerfDataMemorySize is set.
	maxPerfData = 1 << 20
	// maxFigure bounds the name of a statistic, and its text.
	maxFigure = 256
	// perfHead is the length of the buffer's head, perfEntry that of an entry's head.
	perfHead, perfEntry = 32, 20
)

var errPerfData = errors.New("its figures (hsperfdata) are not understood")

// parsePerfData reads the statistics whose names are wanted. The file belongs to the measured
// process, which may write anything into it, so every offset is checked.
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

// add takes one entry, if it is wanted and complete.
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

// textAt returns the text in an entry up to a zero byte, made printable: it becomes part of sample
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
