package files

import (
	"sync/atomic"

	"plimsoll/internal/exchange"
)

// counts are the counters of one loop. Other goroutines may read them.
type counts struct {
	memory, open, loads, cold, refused atomic.Int64
}

const (
	seriesFound = iota
	seriesCold
	seriesRefused
	seriesWaiting
	seriesOpen
	seriesBytes
	seriesWatched
)

// Series are the metrics of these policies.
var Series = []exchange.Series{
	seriesFound: {Name: "files_found_total",
		Help: "Looks for a path, by where it was known: memory (with its content), open, or " +
			"nowhere (disk).",
		Labels: []string{"from"}},
	seriesCold: {Name: "files_cold_reads_total",
		Help: "Pieces of files that were not in memory and were waited for."},
	seriesRefused: {Name: "files_refused_total",
		Help: "Requests refused because too many waited for the disk."},
	seriesWaiting: {Name: "files_waiting", Help: "Requests that wait for the disk at present."},
	seriesOpen:    {Name: "files_open", Help: "Files that are open at present."},
	seriesBytes: {Name: "files_memory_bytes",
		Help: "Memory that known files and their content take at present."},
	seriesWatched: {Name: "files_watched_directories",
		Help: "Directories of which the kernel tells changes."},
}

// Metrics implements exchange.Metered.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	var memory, open, loads, cold, refused int64
	for i := range p.parts {
		c := &p.parts[i].counts
		memory += c.memory.Load()
		open += c.open.Load()
		loads += c.loads.Load()
		cold += c.cold.Load()
		refused += c.refused.Load()
	}
	emit(seriesFound, float64(memory), "memory")
	emit(seriesFound, float64(open), "open")
	emit(seriesFound, float64(loads), "disk")
	emit(seriesCold, float64(cold))
	emit(seriesRefused, float64(refused))
	emit(seriesWaiting, float64(p.store.waiting.Load()))
	emit(seriesOpen, float64(p.store.files.Load()))
	emit(seriesBytes, float64(p.store.bytes.Load()))
	emit(seriesWatched, float64(p.store.watch.watched()))
}
