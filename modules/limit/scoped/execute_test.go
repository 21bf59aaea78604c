// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"os/user"
	"slices"
	"testing"
)

// Another user's command gets none of root's variables.
func TestAnotherUsersEnvironmentIsHisOwn(t *testing.T) {
	own := []string{"PATH=/bin", "TERM=xterm", "LC_ALL=C", "HOME=/root", "USER=root", "TOKEN=secret", "LD_PRELOAD=x", "SUDO_USER=a", "LCX=1"}
	want := []string{"PATH=/bin", "TERM=xterm", "LC_ALL=C", "HOME=/home/backup", "USER=backup", "LOGNAME=backup"}
	if got := environment(own, &user.User{Username: "backup", HomeDir: "/home/backup"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
