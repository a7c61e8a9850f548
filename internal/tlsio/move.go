package tlsio

// Move makes the connection belong to another loop, on which it is called, after the loop that had
// it let go of it. It must hold nothing that was received and not read.
func (c *Conn) Move(l *Loop) { c.loop = l }
