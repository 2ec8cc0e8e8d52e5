"""All hooks, settings and attributes with which a repo can make git start a program.

Taken from the documentation of git 2.39 to 2.54 (githooks, git-config, gitattributes). Settings of
newer versions are included, because a factory uses the git of its machine.
"""

HOOKS = tuple(
    """
    applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg
    commit-msg post-commit pre-rebase post-checkout post-merge pre-push pre-receive update
    proc-receive post-receive post-update reference-transaction push-to-checkout pre-auto-gc
    post-rewrite sendemail-validate fsmonitor-watchman p4-changelist p4-prepare-changelist
    p4-post-changelist p4-pre-submit post-index-change
    """.split()  # noqa: SIM905 - names read best as text
)

SETTINGS = tuple(
    """
    alias.push alias.status browser.x.cmd browser.x.path core.alternateRefsCommand core.askPass
    core.editor core.fsmonitor core.gitProxy core.pager core.sshCommand credential.helper
    credential.https://example.com.helper diff.external diff.evil.command diff.evil.textconv
    difftool.x.cmd difftool.x.path filter.evil.clean filter.evil.process filter.evil.smudge
    gc.recentObjectsHook gpg.program gpg.ssh.defaultKeyCommand gpg.ssh.program gpg.x509.program
    guitool.x.cmd
    hook.evil.command imap.tunnel init.templateDir instaweb.browser instaweb.httpd
    interactive.diffFilter man.x.cmd man.x.path merge.evil.driver mergetool.x.cmd mergetool.x.path
    pager.fetch pager.push receive.procReceive remote.origin.receivepack
    remote.origin.uploadpack remote.origin.vcs sendemail.ccCmd sendemail.sendmailCmd
    sendemail.smtpServer sendemail.toCmd
    sequence.editor submodule.x.update tar.x.command trailer.x.cmd trailer.x.command
    uploadpack.packObjectsHook web.browser
    """.split()  # noqa: SIM905 - names read best as text
)
"""Settings whose value is a program."""

SWITCHES = """
[receive]
	denyCurrentBranch = updateInstead
	procReceiveRefs = refs
	autogc = true
	advertisePushOptions = true
[gc]
	auto = 1
	autoDetach = false
[maintenance]
	auto = true
[commit]
	gpgSign = true
[push]
	gpgSign = if-asked
[tag]
	gpgSign = true
[hook "evil"]
	event = reference-transaction
	event = pre-receive
	event = post-receive
	event = post-checkout
[protocol "ext"]
	allow = always
[extensions]
	worktreeConfig = true
"""
"""Settings that make git use those programs."""

ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"
