package kernel

// messages are the sends to a Unix socket that are unread. The sender is charged for each until its
// last byte is read.
type messages struct {
	list    []message
	charged int
}

type message struct{ size, left int }

func (m *messages) add(size int) {
	m.list = append(m.list, message{size, size})
	m.charged += size
}

// read removes n bytes. It reports whether a message was read to its end.
func (m *messages) read(n int) (freed bool) {
	for n > 0 {
		first := &m.list[0]
		taken := min(n, first.left)
		n, first.left = n-taken, first.left-taken
		if first.left > 0 {
			break
		}
		m.charged -= first.size
		m.list = m.list[1:]
		freed = true
	}
	return freed
}
