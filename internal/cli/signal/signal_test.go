package signal

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/cli/scaffold"
)

// Each installation has an SDK that the Go command finds: a version only if a module proxy may have it.
func TestSDKOfAnInstallation(t *testing.T) {
	const pseudo = "v0.0.0-20260102030405-0123456789ab"
	for _, test := range []struct {
		name    string
		in      installation
		offline bool
		want    scaffold.SDK
		why     string // a part of the sentence, or of the error
	}{
		{"clone", installation{version: pseudo, ownTree: "/src"}, false, scaffold.SDK{Tree: "/src"}, "built there"},
		{"changed clone", installation{version: pseudo + "+dirty", ownTree: "/src"}, false, scaffold.SDK{Tree: "/src"}, "built there"},
		{"clone at a tag", installation{version: "v1.2.3", ownTree: "/src"}, false, scaffold.SDK{Tree: "/src"}, "replace line"},
		{"release", installation{version: "v1.2.3", archive: "/sdk.zip", folderTree: "/src"}, false, scaffold.SDK{Version: "v1.2.3"}, "fetched by the Go command"},
		{"release candidate", installation{version: "v1.2.3-rc.1"}, false, scaffold.SDK{Version: "v1.2.3-rc.1"}, "fetched"},
		{"release offline", installation{version: "v1.2.3", archive: "/sdk.zip"}, true, scaffold.SDK{Archive: "/sdk.zip"}, "no network"},
		{"fetched commit", installation{version: pseudo, fetched: true}, false, scaffold.SDK{Version: pseudo}, pseudo},
		{"program of a clone elsewhere", installation{version: pseudo, folderTree: "/src"}, false, scaffold.SDK{Tree: "/src"}, "not a release"},
		{"package of a clone", installation{version: pseudo, archive: "/sdk.zip"}, false, scaffold.SDK{Archive: "/sdk.zip"}, "folder vendor"},
		{"package of a changed clone", installation{version: "v1.2.3+dirty", archive: "/sdk.zip"}, false, scaffold.SDK{Archive: "/sdk.zip"}, "/sdk.zip"},
		{"program of a clone, copied", installation{version: pseudo}, false, scaffold.SDK{}, "--sdk-version"},
		{"no version", installation{version: "devel-0123456789ab"}, false, scaffold.SDK{}, "without a released version (devel-0123456789ab)"},
		{"offline without an archive", installation{version: "v1.2.3", ownTree: "/src"}, true, scaffold.SDK{}, "share/weir/sdk.zip"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, why, err := test.in.sdk(test.offline)
			if err != nil {
				why = err.Error()
			}
			if got != test.want || (err != nil) != (test.want == scaffold.SDK{}) || !strings.Contains(why, test.why) {
				t.Errorf("sdk(%v) = %+v, %q, %v, want %+v with %q", test.offline, got, why, err, test.want, test.why)
			}
		})
	}
}
