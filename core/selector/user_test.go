// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"strings"
	"testing"
)

func TestAUsersNameIsAnsweredWithTheID(t *testing.T) {
	for text, want := range map[string]string{"root": "write its id, 0", "nobody-of-that-name": "id -u NAME", "-1": "-1 is not a user id"} {
		if _, _, err := user.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("user: %s: %v, want %q", text, err, want)
		}
	}
}
