package bootstrap
