package signal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/weirkeeper/weirkeeper/internal/cli/scaffold"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// installation is what this weir can read about its own origin.
type installation struct {
	version    string // of the build
	fetched    bool   // the Go command fetched that version from a module proxy
	ownTree    string // source tree around the program, or ""
	folderTree string // source tree around the current folder, or ""
	archive    string // archive of the SDK, or ""
}

// thisInstallation reads the origin of the running program.
func thisInstallation() installation {
	in := installation{version: daemon.BuildVersion()}
	if info, ok := debug.ReadBuildInfo(); ok {
		in.fetched = info.Main.Sum != ""
	}
	if program, err := os.Executable(); err == nil {
		folder := filepath.Dir(program)
		in.ownTree = scaffold.SourceTree(folder)
		// a package has bin and share side by side, an unpacked archive of a release has share beside the program
		for _, share := range []string{filepath.Join(filepath.Dir(folder), "share"), filepath.Join(folder, "share")} {
			path := filepath.Join(share, "weir", "sdk.zip")
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && in.archive == "" {
				in.archive = path
			}
		}
	}
	if folder, err := os.Getwd(); err == nil {
		in.folderTree = scaffold.SourceTree(folder)
	}
	return in
}

// sdk returns the SDK for a new signal, and a sentence that explains the choice. offline means the archive.
func (in installation) sdk(offline bool) (s scaffold.SDK, why string, err error) {
	archive := fmt.Sprintf("SDK: a copy in the folder sdk, from %s; what it imports is in the folder vendor. The Go command needs no network.", in.archive)
	tree := "SDK: a replace line in go.mod names the source tree %s, because %s. Other machines need a released version: see the comment in go.mod."
	switch {
	case offline && in.archive == "":
		return s, "", errors.New("--offline: this weir is not installed with the archive of its SDK, share/weir/sdk.zip: " +
			"install a package of a release, or name a source tree of weir with --sdk")
	case offline:
		return scaffold.SDK{Archive: in.archive}, archive, nil
	case in.ownTree != "":
		return scaffold.SDK{Tree: in.ownTree}, fmt.Sprintf(tree, in.ownTree, "this weir was built there"), nil
	case in.released():
		return scaffold.SDK{Version: in.version}, fmt.Sprintf("SDK: %s %s, the version of this weir, fetched by the Go command.", scaffold.Module, in.version), nil
	case in.folderTree != "":
		return scaffold.SDK{Tree: in.folderTree}, fmt.Sprintf(tree, in.folderTree, "this weir is not a release"), nil
	case in.archive != "":
		return scaffold.SDK{Archive: in.archive}, archive, nil
	}
	return s, "", fmt.Errorf("this weir was built without a released version (%s), so the version of the SDK is unknown: "+
		"name a released version with --sdk-version, or a source tree of weir with --sdk", in.version)
}

// released reports whether a module proxy has the version of this build: a tag, or a commit that was fetched from one.
// A build in a changed tree has the suffix "+dirty".
func (in installation) released() bool {
	return semver.IsValid(in.version) && semver.Build(in.version) == "" && (in.fetched || !module.IsPseudoVersion(in.version))
}
