// SPDX-License-Identifier: Apache-2.0

// Package version reports the release, commit and Go version of this build.
package version

import (
	"runtime"
	"runtime/debug"
)

// Number is the release; builds between releases add the commit. The package build sets both by the
// linker's -X because a source archive has no repository.
var (
	Number = "0.1.0"
	commit = ""
)

// Info describes a build.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // full hash; absent if the build recorded none
	Modified bool   `json:"modified"`         // built from files that differ from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"` // as in linux/amd64
}

// Read returns the description of this build.
func Read() Info {
	i := Info{Version: Number, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok || i.Commit != "" {
		return i
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			i.Commit = setting.Value
		case "vcs.modified":
			i.Modified = setting.Value == "true"
		}
	}
	return i
}

// String returns the release and, if recorded, the commit.
func (i Info) String() string {
	text := i.Version
	if len(i.Commit) >= 12 {
		text += "+" + i.Commit[:12]
	}
	if i.Modified {
		text += ".modified"
	}
	return text
}

// String returns the release and, if recorded, the commit.
func String() string { return Read().String() }
