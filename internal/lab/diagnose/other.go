package diagnose

import (
	"slices"
	"strings"

	"plimsoll/internal/lab/profile"
)

// otherClasses are the classes of stacks of runtimes other than Go's, and of the kernel, by
// prefixes of function names. The first class that fits takes the stack.
var otherClasses = []struct {
	name      string
	functions []string
}{
	{classCollector, []string{
		"(garbage collector)", "v8::internal::Heap::", "v8::internal::MarkCompact",
		"v8::internal::Scavenger", "v8::internal::ConcurrentMarking", "v8::internal::MinorMark",
		"v8::internal::Sweeper", "v8::internal::PagedSpace", "v8::internal::MarkingVisitor",
		"v8::internal::IncrementalMarking", "gc_collect", "_PyGC_", "deduce_unreachable",
		"subtract_refs", "update_refs", "visit_decref", "visit_reachable", "move_unreachable",
		"untrack_tuples", "gc_list_", "rb_gc", "gc_mark", "gc_sweep", "gc_start", "gc_enter",
		"gc_page_sweep", "gc_continue", "garbage_collect", "heap_page_allocate", "rgengc_",
		"G1", "ParallelGC", "ZGC", "ParScavenge", "PSMarkSweep", "PSParallelCompact", "PSPromotion",
		"DefNewGeneration", "GenMarkSweep", "MarkSweep", "ShenandoahHeap", "Shenandoah", "ZMark",
		"ZRelocate", "VM_GenCollect", "VM_G1Collect", "zend_gc_", "gc_collect_white", "SVR::gc_heap",
		"WKS::gc_heap", "GC_mark", "GC_gcollect", "luaC_",
	}},
	{classHandshake, []string{"SSL_do_handshake", "SSL_accept", "SSL_connect", "ossl_statem_",
		"gnutls_handshake", "mbedtls_ssl_handshake", "rustls::client::hs", "rustls::server::hs",
		"PyCapsule_SSL", "node::crypto::TLSWrap::DoHandshake"}},
	{classConnect, []string{"__x64_sys_connect", "__x64_sys_accept", "__sys_accept", "__sys_connect"}},
	{classHTTP, []string{
		"tcp_", "__tcp_", "sock_", "inet_", "unix_stream_", "__sys_sendto", "__sys_recvfrom",
		"do_epoll_", "__x64_sys_epoll_", "ep_poll",
	}},
	// Closing a socket has network functions in its stack, so the entry above takes it first.
	{classFiles, []string{
		"__x64_sys_open", "__arm64_sys_open", "do_sys_open", "do_filp_open", "path_openat",
		"filename_lookup", "path_lookupat", "link_path_walk", "__do_sys_newfstatat", "vfs_statx",
		"vfs_fstatat", "do_faccessat", "do_readlinkat", "__x64_sys_close", "__arm64_sys_close",
		"filp_close", "__fput",
	}},
}

// otherClass returns the class of a stack without Go; "" if none fits.
func otherClass(stack []profile.Frame) string {
	if inGo(stack) {
		return ""
	}
	for _, c := range otherClasses {
		if slices.ContainsFunc(stack, func(f profile.Frame) bool {
			return (f.Origin() != profile.Own || c.name == classHandshake) &&
				slices.ContainsFunc(c.functions, func(n string) bool {
					return strings.HasPrefix(f.Function, n)
				})
		}) {
			return c.name
		}
	}
	return ""
}

// Classes returns the share of each class in the weight of a processor profile, for a program in
// any language.
func Classes(p *profile.Profile) map[string]float64 {
	all := p.Classify(profile.CPU, classOf)
	total := p.Total(profile.CPU)
	for class := range all {
		all[class] /= total
	}
	return all
}
