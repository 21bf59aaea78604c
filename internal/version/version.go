// Package version says which Weir this is.
package version

import "runtime/debug"

// Number is the release; builds between releases add the commit.
const Number = "0.1.0"

// String returns the release and, where the build recorded it, the commit.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Number
	}
	revision, dirty := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision" && len(setting.Value) >= 12:
			revision = "+" + setting.Value[:12]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = ".modified"
		}
	}
	return Number + revision + dirty
}
