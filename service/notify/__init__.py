"""How words reach people: chats by apprise, programs by signed webhooks."""
