// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime"
	"testing"
)

func TestStringNamesReleaseAndCommit(t *testing.T) {
	for _, test := range []struct {
		name string
		info Info
		want string
	}{
		{"a build without a repository", Info{Version: "1.2.3"}, "1.2.3"},
		{"a commit", Info{Version: "1.2.3", Commit: "0123456789abcdef"}, "1.2.3+0123456789ab"},
		{"with changes", Info{Version: "1.2.3", Commit: "0123456789abcdef", Modified: true}, "1.2.3+0123456789ab.modified"},
	} {
		if got := test.info.String(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestTheLinkersCommitIsTaken(t *testing.T) {
	defer func(before string) { commit = before }(commit)
	commit = "0123456789abcdef"
	got := Read()
	if want := (Info{Version: Number, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
