package diagnose

// fileRules are about files that are looked up for requests. They need a profile with the kernel's
// part.
var fileRules = []Rule{
	func() Rule {
		r := costly("files-reopened", classFiles, .25, "Looking up and opening files takes %s of "+
			"the processor time",
			"to find a file by its path and open it costs some microseconds, more with each "+
				"folder of the path: several for each request are more than what is done with them")
		judge := r.Judge
		r.Judge = func(e *Evidence) *Finding {
			f := judge(e)
			if f != nil {
				f.Advice = e.keepFiles()
			}
			return f
		}
		return r
	}(),
}

// keepFiles is how to have files found less often, in the words of what serves.
func (e *Evidence) keepFiles() []Action {
	see := Action{
		Text:    "see which files they are, and which of them are not even there",
		Command: e.filled("strace -f -e trace=%file -p PID 2>&1 | head -200"),
	}
	if e.Run.Manifest.Machine.TargetServer == "nginx" {
		return []Action{
			{
				Text: "have nginx remember what it has opened, and what is not there: each file " +
					"is looked up, opened and closed again for each request unless it is told to",
				Command: "open_file_cache max=10000 inactive=60s; open_file_cache_valid 30s; " +
					"open_file_cache_errors on;",
			},
			{
				Text: "look for fewer: each name of try_files, gzip_static and disable_symlinks " +
					"are further calls for each file",
			},
			see,
		}
	}
	return []Action{
		{
			Text: "read what does not change once, and keep its content, or keep the file open; " +
				"a template or a configuration that is read for each request is meant",
		},
		see,
	}
}
