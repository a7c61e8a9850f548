package tlsio

// Move moves the connection to loop l. It is called on l, after the previous loop has given up the
// connection. The connection must not hold received bytes that have not been read.
func (c *Conn) Move(l *Loop) { c.loop = l }
