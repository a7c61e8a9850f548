package files

import (
	"mime"
	"path"
	"strings"
)

// types are the media types of the usual extensions. They are the same on every machine; those of
// package mime depend on what is installed. Text is assumed to be UTF-8.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".htm": "text/html; charset=utf-8",
	".css": "text/css; charset=utf-8", ".txt": "text/plain; charset=utf-8",
	".md": "text/markdown; charset=utf-8", ".csv": "text/csv; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".json": "application/json", ".map": "application/json", ".webmanifest": "application/manifest+json",
	".xml": "text/xml; charset=utf-8", ".rss": "application/rss+xml", ".atom": "application/atom+xml",
	".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	".gif": "image/gif", ".webp": "image/webp", ".avif": "image/avif", ".ico": "image/x-icon",
	".bmp": "image/bmp", ".tif": "image/tiff", ".tiff": "image/tiff",
	".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf", ".otf": "font/otf",
	".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg",
	".wav": "audio/wav", ".flac": "audio/flac", ".m4a": "audio/mp4", ".weba": "audio/webm",
	".mp4": "video/mp4", ".m4v": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg",
	".mov": "video/quicktime", ".m3u8": "application/vnd.apple.mpegurl", ".ts": "video/mp2t",
	".mpd": "application/dash+xml", ".m4s": "video/iso.segment", ".vtt": "text/vtt; charset=utf-8",
	".wasm": "application/wasm", ".pdf": "application/pdf", ".zip": "application/zip",
	".gz": "application/gzip", ".br": octets, ".zst": "application/zstd", ".tar": "application/x-tar",
	".7z": "application/x-7z-compressed", ".rtf": "application/rtf", ".yaml": "application/yaml",
	".yml": "application/yaml", ".toml": "application/toml", ".ics": "text/calendar; charset=utf-8",
	".doc": "application/msword", ".xls": "application/vnd.ms-excel", ".ppt": "application/vnd.ms-powerpoint",
	".epub": "application/epub+zip", ".bin": octets, ".exe": octets, ".dmg": octets, ".iso": octets,
}

const octets = "application/octet-stream"

// typeOf is the media type of a file. It depends on the name's extension and never on the content:
// someone who may upload a picture must not be able to upload a page.
func typeOf(name string) string {
	extension := strings.ToLower(path.Ext(name))
	if known, ok := types[extension]; ok {
		return known
	}
	if known := mime.TypeByExtension(extension); known != "" {
		return known
	}
	return octets
}
