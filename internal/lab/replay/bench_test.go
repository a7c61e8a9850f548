package replay_test

import (
	"testing"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/replay"
)

// BenchmarkALine is from the log's bytes to a request in the generator's hands; one loop.
func BenchmarkALine(b *testing.B) {
	for name, line := range map[string]string{"combined": combinedLine, "json": jsonLine} {
		b.Run(name, func(b *testing.B) {
			l, err := replay.OpenReader(newForever(line), replay.Options{})
			if err != nil {
				b.Fatal(err)
			}
			s, err := l.Start(b.Context(), 1, "shop.test")
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			schedule := s.Arrivals(0, 1).(pace.Streamed)
			player := s.Player(0, 1, 1)
			buffer := make([]byte, 0, 1024)
			answer := &load.Answer{Status: 200}
			b.ReportAllocs()
			for b.Loop() {
				for {
					if _, ok := schedule.Next(); ok {
						break
					}
				}
				session := player.Begin()
				session.Request(buffer)
				session.Answer(answer)
				session.End()
			}
		})
	}
}
