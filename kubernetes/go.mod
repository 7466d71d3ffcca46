module github.com/weirkeeper/weirkeeper/kubernetes

go 1.26.8

require (
	github.com/google/go-cmp v0.7.0
	github.com/weirkeeper/weirkeeper v0.0.0-00010101000000-000000000000
	pgregory.net/rapid v1.3.0
)

replace github.com/weirkeeper/weirkeeper => ..
