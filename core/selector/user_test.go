// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"strings"
	"testing"
)

func TestAUsersNameIsAnsweredWithTheID(t *testing.T) {
	for text, want := range map[string]string{"root": "write 0", "nobody-of-that-name": "id -u NAME", "-1": "-1 is no user id"} {
		if _, _, err := user.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("user: %s: %v, want %q", text, err, want)
		}
	}
}
