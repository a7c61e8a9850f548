// Package hpack is the header compression of HTTP/2 (RFC 7541), both sides: a Decoder turns header
// blocks into fields, an Encoder turns fields into header blocks. It must know nothing of frames
// and streams, or of what makes a field valid in a message: it judges the code and nothing else.
//
// Nothing allocates once a connection's dynamic tables have grown to their usual size. That is why
// the package exists: golang.org/x/net/http2/hpack makes a string of every literal. The tests here
// compare the two. On one core of an AMD EPYC a request of eight fields costs, in nanoseconds and
// allocations:
//
//	                                        here     x/net
//	decode, seven of eight in the table   180, 0    360, 1
//	decode, all literal, Huffman          650, 0   1900, 6
//	decode, all literal, plain            165, 0    285, 6
//
// A response of six fields:
//
//	                                        here     x/net
//	encode, four in the table             165, 0    410, 0
//	encode, literal, Huffman              300, 0    500, 0
//	encode, literal, plain                130, 0
//
// The Huffman code shortens that response from 112 to 88 bytes if all is literal, and writing it
// costs 2.3 times as much. Fields that repeat are in the table after the first response, and the
// next responses have 12 or 13 bytes. So plain strings are right where the network is fast, and
// Init offers the choice.
//
// Everything that a peer can make a Decoder do is bounded: its memory by the announced size of the
// table, its output by the memory that the caller gives, and its time by the length of the block
// times the size of the table (see Next).
package hpack
