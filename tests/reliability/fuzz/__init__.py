"""Every reader of files, fed with damaged and hostile ones: see tests/reliability/README.md."""
