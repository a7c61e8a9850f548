package diagnose

// commonWastes are kinds of waste of which, with few exceptions, honest services have some too.
// Those are findings only if they take a larger share of the time, mostly in one function.
var commonWastes = []waste{
	{
		what: "keys of a sort that are made again for each comparison",
		is:   makesSortKeys,
		instead: "make the key of each thing once, before they are sorted, and compare the keys; " +
			"or keep them with the things",
	},
	{
		what:        "files that are read or written in small pieces",
		writesFiles: true,
		functions: []string{
			"os.(*File).Read", "os.(*File).Write", "os.(*File).WriteString", "os.(*File).ReadAt",
			"os.(*File).Sync", "java.io.FileInputStream.read", "java.io.FileInputStream.read0",
			"java.io.FileOutputStream.write", "java.io.RandomAccessFile.read",
			"java.io.RandomAccessFile.read0",
		},
		begins: []string{"vfs_read", "vfs_write", "ksys_pread64", "ext4_file_write_iter"},
		common: true,
		asked:  true,
		instead: "read and write through a buffer (bufio, BufferedInputStream, setvbuf), or the " +
			"whole file at once",
	},
	{
		what:       "answers and data that are compressed each time",
		compresses: true,
		functions: []string{
			"compress/flate.(*Writer).", "compress/gzip.(*Writer).", "compress/zlib.(*Writer).",
			"compress/lzw.(*Writer).", "github.com/klauspost/compress/flate.(*Writer).",
			"github.com/klauspost/compress/gzip.(*Writer).",
			"github.com/klauspost/compress/zstd.(*Encoder).",
			"github.com/andybalholm/brotli.(*Writer).", "github.com/ulikunitz/xz.(*Writer).",
			"java.util.zip.Deflater.deflate", "java.util.zip.Deflater.deflateBytesBytes",
			"System.IO.Compression.DeflateStream.Write", "System.IO.Compression.BrotliStream.Write",
		},
		begins: []string{
			"deflate_slow", "deflate_fast", "deflate_medium", "deflate_stored", "longest_match",
			"Cr_z_deflate", "ZSTD_compress", "BrotliEncoder", "BrotliCompress", "lzma_code",
			"BZ2_compressBlock",
		},
		common: true,
		instead: "compress what stays the same for a while once, and keep it; use a lower level " +
			"(gzip 9 takes several times as long as 5, for a few percent); or leave it to a " +
			"proxy that keeps answers",
		stays: .3,
	},
	{
		what: "signatures and secrets of RSA that are made or opened with a private key each time",
		functions: []string{
			"crypto/rsa.SignPKCS1v15", "crypto/rsa.SignPSS", "crypto/rsa.(*PrivateKey).",
			"crypto/rsa.DecryptPKCS1v15", "crypto/rsa.DecryptOAEP", "sun.security.rsa.RSACore.crtCrypt",
			"sun.security.rsa.RSACore.priCrypt", "rsa_ossl_private_encrypt",
			"rsa_ossl_private_decrypt", "rsa_ossl_mod_exp", "RSA_private_encrypt", "RSA_private_decrypt",
		},
		common: true,
		instead: "keep a token for as long as it is valid; sign with Ed25519 or ECDSA (P-256), which " +
			"takes a twentieth of the time of RSA with 2,048 bits",
		stays: .1,
	},
	{
		what: "pictures that are encoded, or converted pixel by pixel, each time",
		functions: []string{
			"image/png.Encode", "image/png.(*Encoder).", "image/jpeg.Encode", "image/gif.Encode",
			"image/gif.EncodeAll", "image/color.(*modelFunc).Convert", "image/jpeg.toYCbCr",
			"javax.imageio.ImageIO.write", "java.awt.image.BufferedImage.getRGB",
			"java.awt.image.BufferedImage.setRGB", "png_write_row", "png_write_image",
			"jpeg_write_scanlines", "WebPEncode", "getpixel", "putpixel",
		},
		files:  []string{"PIL/PngImagePlugin.py", "PIL/ImageFile.py", "pngjs/pack-sync.js"},
		common: true,
		instead: "keep what was encoded as long as the picture does not change; hand the encoder a " +
			"type whose rows it knows (*image.Paletted, *image.RGBA), and not one with At alone; " +
			"compress less (png.BestSpeed); read and write whole rows in the place of pixels",
	},
	{
		what: "pictures that are decoded, scaled or drawn each time",
		functions: []string{
			"image/jpeg.Decode", "image/png.Decode", "image/gif.Decode", "image.Decode",
			"golang.org/x/image/draw.", "golang.org/x/image/webp.Decode",
			"github.com/nfnt/resize.", "github.com/disintegration/imaging.",
			"javax.imageio.ImageIO.read", "sun.java2d.loops.", "java.awt.image.AffineTransformOp.",
		},
		common: true,
		least:  mostHonest,
		instead: "keep the small picture that was made of a large one as long as that does not " +
			"change, or make it when the large one is stored",
	},
	{
		what:   "tables of pandas that are gone through row by row",
		parts:  goesThroughRows,
		common: true,
		instead: "compute with whole columns; or take the rows out once, as tuples or a list " +
			"(itertuples, to_dict)",
	},
	{
		what: "texts that are put together or taken apart by a format which is read each time " +
			"(Sscanf, Sprintf, String.format, dates)",
		functions: []string{
			"fmt.Sscanf", "fmt.Sscan", "fmt.Sscanln", "fmt.Fscan", "fmt.Fscanf", "fmt.Fscanln",
			"fmt.Sprintf", "fmt.Sprint", "fmt.Sprintln", "fmt.Fprintf", "fmt.Fprint", "fmt.Fprintln",
			"fmt.Appendf", "fmt.Append", "fmt.Errorf", "java.lang.String.format", "java.util.Formatter.",
			"java.text.MessageFormat.", "java.util.Scanner.", "java.text.SimpleDateFormat.parse",
			"java.text.SimpleDateFormat.format", "java.text.DecimalFormat.format",
			"java.time.format.DateTimeFormatter.parse", "java.time.format.DateTimeFormatter.format",
			"java.time.format.DateTimeFormatter.formatTo",
			"java.time.format.DateTimeFormatter.parseResolved0",
			"System.String.Format", "date__parse",
			"date_s__parse", "date_s__strptime", "strptime_internal", "__strptime_internal",
			"zif_strtotime", "time.Parse", "time.ParseInLocation", "time.parse",
			"time.Time.Format", "time.Time.AppendFormat", "time.Time.appendFormat",
			"time.Time.String",
		},
		begins: []string{"__vfprintf_internal", "__vfscanf_internal", "__printf_fp"},
		files: []string{
			"_strptime.py", "parser/_parser.py", "arrow/parser.py", "pendulum/parser.py",
			"moment/moment.js", "node_modules/moment", "node_modules/dayjs", "node_modules/luxon",
			"node_modules/date-fns",
		},
		common: true,
		instead: "read and write numbers with the functions that are for them (strconv, " +
			"Integer.parseInt, StringBuilder); use a struct for the key of a map in the " +
			"place of a text; keep dates as times or numbers, and what was written of one as " +
			"long as it is the same",
	},
	{
		what: "lists that are looked through for each element, or moved for each that is put in " +
			"or taken out",
		searchesLists: true,
		functions: []string{
			"slices.Contains", "slices.Index", "slices.IndexFunc", "slices.ContainsFunc",
			"slices.Insert", "slices.Delete", "container/list.", "java.util.ArrayList.contains",
			"java.util.ArrayList.indexOf", "java.util.ArrayList.indexOfRange",
			"java.util.ArrayList.remove", "java.util.ArrayList.fastRemove",
			"java.util.ArrayList.batchRemove",
			"java.util.AbstractCollection.contains", "java.util.LinkedList.node",
			"java.util.LinkedList.get", "java.util.LinkedList.indexOf",
			"java.util.LinkedList.contains", "java.util.Vector.indexOf",
			"java.util.AbstractList.removeRange", "java.util.ImmutableCollections$ListN.indexOf",
			"java.util.concurrent.CopyOnWriteArrayList.",
			"java.util.concurrent.CopyOnWriteArraySet.", "java.util.Arrays$ArrayList.indexOf",
			"java.util.Arrays$ArrayList.contains", "java.util.ArrayDeque.contains",
			"java.util.ArrayDeque.removeFirstOccurrence", "java.util.PriorityQueue.indexOf",
			"java.util.concurrent.ConcurrentLinkedQueue.size",
			"java.util.concurrent.ConcurrentLinkedQueue.contains",
			"java.util.concurrent.ConcurrentLinkedDeque.size",
			"java.util.concurrent.ConcurrentLinkedDeque.contains",
			"java.util.stream.FindOps$FindOp.evaluateSequential",
			"java.util.stream.MatchOps$MatchOp.evaluateSequential",
			"java.lang.StringBuilder.insert",
			"java.lang.StringBuilder.deleteCharAt", "rb_ary_includes", "rb_ary_shift",
			"rb_ary_delete", "rb_ary_delete_at", "rb_ary_unshift_m", "rb_ary_index",
			"zif_in_array",
			"zif_array_search", "php_search_array", "zif_array_shift", "zif_array_unshift",
			"list_contains", "PySequence_Contains", "PyList_Insert", "list_insert", "list_pop",
			"lfind",
		},
		begins: []string{
			"Builtins_ArrayIncludes", "Builtins_ArrayIndexOf", "Builtins_ArrayPrototypeIncludes",
			"Builtins_ArrayPrototypeIndexOf", "Builtins_ArrayPrototypeShift",
			"Builtins_ArrayPrototypeUnshift", "v8::internal::Builtin_ArrayShift",
			"v8::internal::Builtin_ArrayUnshift", "Builtins_ArrayPrototypeSplice",
			"Builtins_ArrayFind", "Builtins_ArrayPrototypeFind",
		},
		common: true,
		instead: "look things up in a set or a map; take from a queue by an index or a ring and " +
			"not by shifting the list; count what is put into a queue that counts its elements " +
			"one by one when it is asked (ConcurrentLinkedQueue)",
	},
	{
		what: "lists that are sorted as a whole each time",
		functions: []string{
			"sort.Slice", "sort.SliceStable", "sort.Sort", "sort.Stable", "sort.Ints",
			"sort.Strings", "sort.Float64s", "slices.Sort", "slices.SortFunc",
			"slices.SortStableFunc", "slices.Sorted", "slices.SortedFunc",
			"slices.SortedStableFunc", "java.util.TimSort.", "java.util.ComparableTimSort.",
			"java.util.DualPivotQuicksort.", "java.util.Arrays.sort", "list_sort_impl",
			"rb_ary_sort_bang", "qsort_r",
		},
		begins: []string{"Builtins_ArrayTimSort", "Builtins_ArrayPrototypeSort", "std::__introsort_loop"},
		common: true,
		least:  mostHonest,
		sorts:  true,
		instead: "keep the list sorted, and put each new element in its place (a binary search, " +
			"a tree); or sort once when it changes; where only the first few are needed, take " +
			"them with a heap (container/heap, PriorityQueue, heapq.nsmallest)",
	},
	{
		what:   "rows that are made into objects of a mapper, of which little is read",
		parts:  mapsRows,
		files:  []string{"transformer/RawSqlResultsToEntityTransformer.js"},
		common: true,
		instead: "read plain rows where nothing is changed and saved (lean() in Mongoose, raw: " +
			"true in Sequelize, getRawMany() in TypeORM, values_list() in Django, columns in " +
			"SQLAlchemy's select()), and only the columns and the rows that are needed; let the " +
			"database sum and count",
	},
	{
		what:      "tables that are read through, row by row, as no index fits",
		functions: readsTables,
		common:    true,
		least:     .5,
		instead: "see what the database says of the statement (EXPLAIN), and make an index for " +
			"what it asks for; read and count only the rows that are needed",
	},
	{
		what: "keys whose hashes are the same, so that a map is looked through",
		functions: []string{
			"java.util.HashMap$TreeNode.", "java.util.HashMap.treeifyBin",
			"java.util.concurrent.ConcurrentHashMap$TreeBin.",
			"java.util.concurrent.ConcurrentHashMap$TreeNode.",
		},
		instead: "have hashCode depend on all that equals compares",
	},
	{
		what: "strings that are put together piece by piece",
		functions: []string{
			"runtime.concatstrings", "java.lang.StringConcatHelper.", "java.lang.String.concat",
			"rb_str_plus", "PyUnicode_Concat", "PyUnicode_Append", "unicode_concatenate",
			"concat_function", "System.String.Concat",
		},
		begins: []string{"v8::internal::String::SlowFlatten", "v8::internal::String::Flatten"},
		common: true,
		instead: "write the pieces into one buffer (strings.Builder, StringBuilder, " +
			"''.join(list), << in Ruby), and make the text of it once",
	},
	{
		what: "objects that are copied for each thing that is added to them (spread, concat, " +
			"merge)",
		functions: []string{
			"maps.Clone", "maps.Copy", "slices.Clone", "rb_hash_merge", "rb_hash_dup",
			"rb_ary_plus", "zif_array_merge", "zend_array_dup", "java.util.Arrays.copyOf",
			"java.util.Arrays.copyOfRange", "java.util.ArrayList.<init>",
			"java.util.HashMap.<init>", "java.util.HashMap.putMapEntries",
		},
		begins: []string{
			"Builtins_CloneObjectIC", "Builtins_CopyDataProperties", "Builtins_SetDataProperties",
			"Builtins_CloneFastJSArray", "Builtins_ArrayConcat",
			"v8::internal::Builtin_ArrayConcat", "Builtins_ObjectAssign",
			"v8::internal::JSReceiver::SetOrCopyDataProperties",
			"v8::internal::Runtime_CloneObjectIC",
		},
		common:  true,
		instead: "add to one object in a loop, and hand it on when it is whole",
	},
	{
		what: "slices that grow piece by piece",
		functions: []string{
			"runtime.growslice", "java.util.ArrayList.grow", "std::vector::_M_realloc_insert",
		},
		common:  true,
		instead: "give them the room that they will need when they are made",
	},
	{
		what: "tables that grow piece by piece, and are built anew each time (maps, dictionaries)",
		functions: []string{
			"internal/runtime/maps.(*table).grow", "internal/runtime/maps.(*table).rehash",
			"internal/runtime/maps.(*Map).growToTable", "runtime.hashGrow", "runtime.growWork",
			"runtime.evacuate", "java.util.HashMap.resize",
			"java.util.concurrent.ConcurrentHashMap.transfer",
			"dictresize", "st_rehash", "rebuild_table", "zend_hash_do_resize",
			"System.Collections.Generic.Dictionary`2.Resize",
		},
		begins: []string{
			"v8::internal::HashTable", "v8::internal::OrderedHashTable",
			"std::_Hashtable::_M_rehash",
			"hashbrown::raw::RawTable", "Builtins_GrowFastElements",
		},
		common:  true,
		instead: "give them the room that they will need when they are made; or keep them",
	},
	{
		what: "texts that are turned into bytes or back, or written in other letters, again and " +
			"again",
		functions: []string{
			"runtime.stringtoslicebyte", "runtime.slicebytetostring", "runtime.stringtoslicerune",
			"runtime.slicerunetostring", "strings.ToLower", "strings.ToUpper", "strings.Map",
			"strings.Title", "bytes.ToLower", "golang.org/x/text/unicode/norm.",
			"golang.org/x/text/cases.", "java.lang.String.getBytes",
			"java.lang.String.toLowerCase",
			"java.lang.String.toUpperCase", "java.text.Normalizer.normalize",
			"unicode_lower", "unicode_upper", "unicodedata_UCD_normalize", "rb_str_downcase",
			"rb_str_upcase", "rb_str_encode", "str_transcode0",
		},
		begins: []string{
			"Builtins_StringPrototypeToLowerCase", "Builtins_StringPrototypeToUpperCase",
			"v8::internal::Builtin_StringPrototypeToLowerCase", "node::StringBytes::",
		},
		common: true,
		instead: "keep a text in the form in which it is compared; compare without making " +
			"another (strings.EqualFold, casefold once)",
	},
	{
		what: "names of machines that are looked up each time",
		functions: []string{
			"net.(*Resolver).", "net.LookupHost", "net.LookupIP",
			"java.net.InetAddress.getAllByName",
			"java.net.Inet6AddressImpl.lookupAllHostAddr",
		},
		begins: []string{"getaddrinfo", "__GI_getaddrinfo", "gaih_inet", "_nss_", "__nss_",
			"__libc_res_", "__res_context_"},
		common:  true,
		instead: "keep connections, or keep what a name was found to mean for as long as it may be",
	},
	{
		what: "random numbers that are asked of the kernel one by one (identifiers, tokens)",
		functions: []string{
			"crypto/rand.", "crypto/internal/sysrand.", "github.com/google/uuid.New",
			"github.com/google/uuid.NewRandom", "github.com/gofrs/uuid.",
			"github.com/satori/go.uuid.",
			"java.security.SecureRandom.nextBytes", "java.util.UUID.randomUUID",
			"sun.security.provider.NativePRNG.", "sun.security.provider.NativePRNG$RandomIO.",
			"getrandom", "get_random_bytes_user",
		},
		begins: []string{"__x64_sys_getrandom", "extract_crng"},
		files:  []string{"uuid.py", "secrets.py"},
		common: true,
		instead: "take many bytes at once (uuid.EnableRandPool, a buffer), and where anybody may " +
			"guess them a generator that asks nobody",
	},
	{
		// Python's C code for it. What copies in this way is known by the module's name only.
		what:   "objects that are written down and read again (pickle)",
		common: true,
		instead: "keep objects as they are in the process that needs them; share or send less of " +
			"them, or only what has changed",
	},
	{
		// Known by a library without symbols: whether one expression is slow is not known then.
		what:   "regular expressions that are tried, one after the other, for each request",
		common: true,
	},
	{
		// Engines whose time is linear. They are not slow, but there is much for them to do.
		what: "many regular expressions that are tried one after the other, or long texts that " +
			"are searched with them",
		functions: []string{
			"regexp.(*Regexp).", "com.google.re2j.Machine.", "com.google.re2j.Matcher.",
			"re2::RE2::DoMatch",
		},
		common: true,
		least:  mostHonest,
		instead: "combine them into one expression (a|b|c), or look first for a fixed text that " +
			"each of them needs (strings.Contains, strings.HasPrefix, a map, a trie); look at " +
			"fewer lines and texts, and keep what was found of those that stay the same",
	},
	{
		// Engines whose time may grow with the square of the text, or faster.
		what: "regular expressions that try again and again what does not match",
		begins: []string{
			"RegExp:", "Builtins_RegExp", "java.util.regex.", "System.Text.RegularExpressions.",
			"pcre2_match", "pcre2_jit_match", "pcre_exec", "sre_ucs", "sre_search", "onig_search",
			"onig_match", "pcre2_dfa_match", "regexec", "re_search_internal",
			"std::__detail::_Executor", "github.com/dlclark/regexp2.",
		},
		common: true,
		instead: "leave an expression one way to match: no star inside of a star, no two of them " +
			"that fit the same beside each other, an anchor at its beginning; or use an engine " +
			"that takes a linear time (RE2, Rust's regex), and bound the length of what is matched",
	},
	{
		what: "texts that are looked through again and again for their end or a place in them " +
			"(strlen, memchr, strstr; sscanf and strcat look for the end at each call)",
		searches: []string{
			"rawmemchr", "memchr", "strlen", "strnlen", "strchr", "strchrnul", "strstr",
			"strcasestr", "memmem", "wcslen", "strpbrk", "strspn", "strcspn",
		},
		common: true,
		asked:  true,
		instead: "keep the length of a text, or where it was read to, and go on from there: " +
			"strtoul and strtod in the place of sscanf, stpcpy or a pointer to the end in the " +
			"place of strcat, and no strlen in the condition of a loop",
	},
	{
		what: "memory that is cleared, or taken from the kernel page by page, each time: " +
			"large buffers",
		functions: []string{
			"runtime.makeslice", "runtime.mallocgcLarge", "runtime.memclrNoHeapPointers",
		},
		begins: []string{
			"clear_page", "do_anonymous_page", "asm_exc_page_fault", "asm_sysvec_page_fault",
			"__x64_sys_munmap", "__x64_sys_mmap", "__x64_sys_madvise", "__x64_sys_brk",
			"do_munmap",
			"zap_pte_range", "unmap_region",
		},
		searches: []string{"memset", "bzero"},
		common:   true,
		asked:    true,
		instead: "keep large buffers and use them again (a pool, one for each worker), and make " +
			"them no larger than what they hold; in C let malloc keep what is freed " +
			"(M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)",
	},
	{
		what:     "memory that is copied again and again (realloc, memcpy, memmove)",
		searches: []string{"memcpy", "memmove", "mempcpy", "runtime.memmove", "realloc"},
		begins:   []string{"copy_page", "__x64_sys_mremap"},
		common:   true,
		asked:    true,
		instead: "let what grows double its room; pass references and not copies; and put in and " +
			"take out at the end of a list, not at its beginning",
	},
	{
		what: "memory that is asked for and given back again and again (malloc, free)",
		begins: []string{
			"_int_malloc", "_int_free", "malloc_consolidate", "unlink_chunk", "sysmalloc",
			"__libc_malloc", "__libc_calloc",
		},
		searches: []string{"malloc", "free", "cfree", "calloc"},
		common:   true,
		asked:    true,
		instead:  "allocate once for a request (an arena), or keep what is freed in a list",
	},
}
